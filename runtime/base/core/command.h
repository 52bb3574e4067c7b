/* SPDX-License-Identifier: Apache-2.0 */
/* A subcommand of `megatron`, as main() lists and calls it. */
#ifndef MEGATRON_COMMAND_H
#define MEGATRON_COMMAND_H

#include "lib/error.h"

/* What run() returns besides exit codes. */
enum { COMMAND_FAILED = -1, COMMAND_USAGE = -2 /* a wrong command line */ };

/* Exit code for a wrong command line: another attempt would fail, too. */
enum { EXIT_USAGE = 2 };

struct command {
    const char *name;
    const char *summary; /* one line for `megatron --help` */
    /* Run with the arguments after the command's name. Returns the exit code of the process; or
     * fills 'err', which main() prints, and returns COMMAND_FAILED (exit code 1) or COMMAND_USAGE (exit code
     * EXIT_USAGE). Handles --help itself and returns 0. */
    int (*run)(int argc, const char *const *argv, struct error *err);
};

#endif
