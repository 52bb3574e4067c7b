/* SPDX-License-Identifier: Apache-2.0 */
/* Run a program to completion, with a deadline, and capture its output. No shell.
 *
 *     const char *const argv[] = {"enroot", "version", NULL};
 *     struct process_request request = {.argv = argv, .path = getenv("PATH"), .timeout = 20};
 *
 *     if (process_run(&request, &result, &err) == 0 && result.status == 0)
 *         puts(result.output);
 */
#ifndef MEGATRON_PROCESS_H
#define MEGATRON_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include "lib/error.h"
#include "stop.h"

struct process_request {
    const char *const *argv;        /* argv[0] is a path, or a name that is looked up in 'path' */
    const char *const *environment; /* NULL-terminated; NULL: the environment of this process */
    const char *path;               /* directories, separated by colons */
    double timeout;                 /* seconds; 0: none */
    /* Called about once a second while the program runs; may be NULL. A nonzero value terminates
     * the program. */
    int (*tick)(void *argument, double elapsed);
    /* Called with each line of standard error as it arrives; may be NULL. */
    void (*line)(void *argument, const char *line);
    void *argument;
    const stop_flag *stop; /* terminates the program once set, e.g. by a signal handler; may be
                              NULL */
    double stop_grace;     /* seconds between SIGTERM and SIGKILL after a stop; 0: one second */
};

struct process_result {
    int status;        /* exit code, or 128 + the signal that ended it */
    bool timed_out;    /* it ran past the timeout, or tick() ended it */
    char output[4096]; /* the first bytes of standard output */
    char errors[4096]; /* the last bytes of standard error */
};

/* Run 'request' in a new session. On a timeout, or if the calling process is killed, the process
 * group gets SIGTERM, then SIGKILL. Returns 0 if the program was started (see 'result' for how it
 * ended), or -1 if it could not be started. */
int process_run(const struct process_request *request, struct process_result *result,
                struct error *err);

/* Find 'name' in the directories of 'path'; a name with a slash is a path already. Returns 0 and
 * the full name, or -1 if there is no such executable file. */
int process_find(const char *name, const char *path, char *full, size_t size);

/* Fill 'err' if 'program' could not be started for the reason 'number', an errno value: which limit
 * to check. Returns -1. */
int process_not_started(const char *program, int number, struct error *err);

/* If a signal ended 'what' (see process_result.status), fill 'err' with the signal and what to do.
 * Returns -1 then, else 0. */
int process_check_signal(const char *what, int status, struct error *err);

/* The line of 'errors' that best explains a failure: the last "[ERROR] ..." of Enroot without the
 * mark, else the last line that is neither empty nor progress ("[INFO] ..."). What a hook printed
 * ranks above the line that says that the hook failed. */
void process_complaint(const char *errors, char *line, size_t size);

#endif
