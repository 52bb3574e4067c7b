/* SPDX-License-Identifier: Apache-2.0 */
#include "supervise_signals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void supervise_signals_open(struct supervise_signals *s, int pass_on, const char *command)
{
    const char *slash = command ? strrchr(command, '/') : NULL;

    *s = (struct supervise_signals){.pass_on = pass_on};
    s->by_srun = command && strcmp(slash ? slash + 1 : command, "srun") == 0;
    if (s->by_srun)
        setenv("SLURM_DISABLE_STATUS", "1", 0);
    sigemptyset(&s->waited);
    sigaddset(&s->waited, SIGTERM);
    sigaddset(&s->waited, SIGINT);
    sigaddset(&s->waited, SIGUSR1);
    sigaddset(&s->waited, SIGCHLD);
    sigprocmask(SIG_BLOCK, &s->waited, &s->before);
}

/* In a job, Slurm signals the run itself, and a terminal signals all processes; otherwise the
 * signal is forwarded. srun kills its ranks on SIGTERM, but passes SIGUSR1 on to them. */
static void take(struct supervise_signals *s, int number, const siginfo_t *info, pid_t run)
{
    int typed = number == SIGINT && info->si_code == SI_KERNEL;

    s->received |= number == SIGTERM;
    s->stopped |= number == SIGINT || (number == SIGTERM && s->pass_on);
    if (!s->pass_on || typed || run <= 0)
        return;
    if (number == SIGTERM && s->by_srun)
        number = SIGUSR1;
    if (number == SIGTERM || number == SIGINT || number == SIGUSR1)
        kill(run, number);
}

void supervise_signals_wait(struct supervise_signals *s, pid_t run)
{
    siginfo_t info;
    int number = sigwaitinfo(&s->waited, &info);

    take(s, number, &info, run);
}

void supervise_signals_sleep(struct supervise_signals *s, int64_t seconds)
{
    struct timespec second = {1, 0};
    siginfo_t info;

    for (int number; seconds > 0 && !s->stopped; seconds -= number < 0 && errno == EAGAIN) {
        number = sigtimedwait(&s->waited, &info, &second);
        take(s, number, &info, -1);
    }
}
