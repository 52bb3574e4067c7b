/* SPDX-License-Identifier: Apache-2.0 */
/* A subcommand of `megatron`, as main() lists and calls it. */
#ifndef MEGATRON_COMMAND_H
#define MEGATRON_COMMAND_H

#include "error.h"

#define COMMAND_USAGE (-2)

/* Exit code of a process whose command line is wrong: another attempt would fail the same way. */
#define EXIT_USAGE 2

struct command {
    const char *name;
    const char *summary; /* one line for `megatron --help` */
    /* Run with the words after the command's name. Returns the exit code of the process or, with a
     * sentence in 'err' that main() prints, -1 (exit code 1) or COMMAND_USAGE (EXIT_USAGE: this
     * command line can never work). Handles --help itself and returns 0. */
    int (*run)(int argc, const char *const *argv, struct error *err);
};

#endif
