/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/clock.h"
#include "run/command/commands.h"
#include "base/core/log.h"
#include "lib/nearest.h"
#include "base/core/world.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SPEAKER_SECONDS = 2, SILENT_SECONDS = 5 };

static void print_help(FILE *stream)
{
    fprintf(stream,
            "Usage: megatron COMMAND [OPTION...]\n"
            "Train language models on Slurm clusters, with one process per rank started by srun.\n"
            "\n"
            "Commands:\n");
    for (size_t i = 0; commands[i]; i++)
        fprintf(stream, "  %-14s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(stream,
            "\n"
            "`megatron COMMAND --help` lists the options of a command; see also megatron(1).\n");
}

static int unknown_command(const char *name)
{
    const char *names[64];
    char near[256];
    size_t count = 0;

    while (commands[count] && count < 64) {
        names[count] = commands[count]->name;
        count++;
    }
    if (nearest_names(name, names, count, near, sizeof(near)) > 0)
        fprintf(stderr, "megatron: unknown command %s; did you mean %s?\n", name, near);
    else
        fprintf(stderr, "megatron: unknown command %s; `megatron --help` lists all\n", name);
    return EXIT_USAGE;
}

static void wake(int signal)
{
    (void)signal;
}

/* An error that many ranks have in common is printed by one of them, and mpirun and `srun
 * --kill-on-bad-exit` must not kill that rank before it has printed: they send SIGTERM to all ranks
 * as soon as one fails. It must not exit before the others get here either: srun returns the
 * highest exit code, which should be theirs and not that of a signal. */
static void wait_for_others(int rc, int spoke)
{
    struct sigaction action = {.sa_handler = wake};
    struct world world;

    if (spoke && !world_is_rank())
        return;
    sigaction(SIGTERM, &action, NULL);
    if (spoke && (rc != EXIT_USAGE || world_read(&world, NULL) < 0 || world.size == 1))
        log_drain();
    else
        clock_sleep(spoke ? SPEAKER_SECONDS : SILENT_SECONDS);
}

static int run_command(const struct command *command, int argc, const char *const *argv)
{
    struct error err = {.text = ""};
    int rc = command_run(command, argc, argv, &err);

    if (rc < 0) {
        if (!err.quiet)
            fprintf(stderr, "megatron %s: %s\n", command->name, err.text);
        rc = err.code == ERROR_USAGE ? EXIT_USAGE : EXIT_FAILURE;
        wait_for_others(rc, !err.quiet);
        return rc;
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        error_set_errno(&err, errno, "cannot write to standard output");
        fprintf(stderr, "megatron %s: %s\n", command->name, err.text);
        return 1;
    }
    return rc;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;

    if (!name) {
        fprintf(stderr, "megatron: no command; `megatron --help` lists all\n");
        return EXIT_USAGE;
    }
    if (strcmp(name, "help") == 0 && argc > 2) {
        static const char *const ask[] = {"--help", NULL};

        for (size_t i = 0; commands[i]; i++)
            if (strcmp(commands[i]->name, argv[2]) == 0)
                return run_command(commands[i], 1, ask);
        return unknown_command(argv[2]);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(name, "--version") == 0)
        name = "version";
    for (size_t i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return run_command(commands[i], argc - 2, (const char *const *)argv + 2);
    return unknown_command(name);
}
