/* Run a program to its end, with a deadline, and keep what it said. No shell. */
#ifndef MEGATRON_PROCESS_H
#define MEGATRON_PROCESS_H

#include <stddef.h>
#include "error.h"
#include "stop.h"

struct process_request {
    const char *const *argv;        /* argv[0] is looked up in 'path' */
    const char *const *environment; /* NULL-terminated; NULL: this process's own */
    const char *path;               /* directories, separated by colons */
    double timeout;                 /* seconds; 0: none */
    /* Called about once a second while the program runs; NULL: not at all. A value other than 0
     * ends the program. */
    int (*tick)(void *argument, double elapsed);
    void *argument;
    const stop_flag *stop; /* ends the program when it is set, as by a signal; may be NULL */
};

struct process_result {
    int status;        /* exit code, or 128 + the signal that ended it */
    int timed_out;     /* it ran past the timeout, or tick() ended it */
    char output[4096]; /* the first of standard output */
    char errors[4096]; /* the last of standard error */
};

/* Run 'request' in a session of its own; on a timeout, and when the calling process is killed, its
 * process group gets SIGTERM, then SIGKILL. Returns 0 where the program was started (see 'result'
 * for how it ended), -1 where it could not be. */
int process_run(const struct process_request *request, struct process_result *result,
                struct error *err);

/* Find 'name' in the directories of 'path'. Returns 0 and the full name, or -1 where no directory
 * has an executable file of that name. */
int process_find(const char *name, const char *path, char *full, size_t size);

/* The line of 'errors' that says best what went wrong: Enroot's last "[ERROR] ..." without the
 * mark, else the last line that is not empty or tells of progress ("[INFO] ..."). That a hook
 * failed counts less than what the hook said. */
void process_complaint(const char *errors, char *line, size_t size);

#endif
