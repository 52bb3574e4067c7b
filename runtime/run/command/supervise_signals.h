/* SPDX-License-Identifier: Apache-2.0 */
/* The signals that `megatron supervise` receives while it waits, and what the run learns of them.
 */
#ifndef MEGATRON_SUPERVISE_SIGNALS_H
#define MEGATRON_SUPERVISE_SIGNALS_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

struct supervise_signals {
    sigset_t waited, before;
    int pass_on;  /* outside a job nothing else forwards signals to the run */
    int by_srun;  /* the run is started by srun */
    int received; /* SIGTERM was received */
    int stopped;  /* SIGINT, or SIGTERM outside a job, was received: nothing is started again */
};

/* Block and collect SIGTERM, SIGINT, SIGUSR1 and SIGCHLD from now on. 'command' is the program that
 * will be run, or NULL if the caller starts the ranks itself: srun is told by its environment to
 * pass the first Ctrl-C on to the ranks, instead of answering it with their status. */
void supervise_signals_open(struct supervise_signals *signals, int pass_on, const char *command);

/* Wait for a signal. With 'pass_on' it is forwarded to the process 'run', if that is above 0. */
void supervise_signals_wait(struct supervise_signals *signals, pid_t run);

/* Sleep until the time is over or 'stopped' is set. */
void supervise_signals_sleep(struct supervise_signals *signals, int64_t seconds);

#endif
