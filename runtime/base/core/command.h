/* SPDX-License-Identifier: Apache-2.0 */
/* A subcommand of `megatron`, as main() lists and runs it:
 *
 *     const struct command command_topo = {
 *         .name = "topo",
 *         .summary = "show which GPUs, NICs and CPUs each task of a node gets",
 *         .usage = "Usage: megatron topo [OPTION...]\n"
 *                  "Show which GPUs, NICs and CPUs each task of a node gets.\n",
 *         .options = table,
 *         .size = sizeof(struct topo_options),
 *         .unexpected = "use --topology to name a file",
 *         .run = run_topo,
 *     };
 */
#ifndef MEGATRON_COMMAND_H
#define MEGATRON_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "option.h"

/* Exit code for a wrong command line: another attempt would fail, too. */
enum { EXIT_USAGE = 2 };

struct command {
    const char *name;    /* "topo"; of an action "data filter" */
    const char *summary; /* one line for `megatron --help` */
    const char *usage;   /* the beginning of its own --help */
    const struct option *options;
    size_t size;          /* of the struct that 'options' fill */
    const void *defaults; /* its values before the options are read; NULL: zeros */
    const char
        *unexpected;    /* advice about words that belong to no option; NULL: 'run' takes them */
    bool reported_once; /* a wrong command line is reported by one rank only */

    /* Run with the values of the options. Returns the exit code of the process, or -1 with 'err',
     * which main() prints; the exit code is then EXIT_USAGE if the error is one of usage, else 1.
     */
    int (*run)(void *given, const struct options_result *result, struct error *err);

    /* Instead of 'run': the first word names one of these commands, which end with NULL. The first
     * one's --help is shown if there is no 'usage'. */
    const struct command *const *actions;

    /* Instead of everything after 'summary': reads the words after the command's name by itself. */
    int (*run_words)(int argc, const char *const *argv, struct error *err);
};

/* Run a command with the words after its name: read its options, print its help or call it. Returns
 * what 'run' does. */
int command_run(const struct command *command, int argc, const char *const *argv,
                struct error *err);

#endif
