/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "lib/clock.h"
#include "launch.h"
#include "base/core/log.h"
#include "run/train/train.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/mempolicy.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds from the failure of the first rank until the others, which notice it and usually end by
 * themselves, get SIGTERM and SIGKILL; and from the end of a run until remaining ranks get SIGTERM.
 */
#define SELF_SECONDS 1.0
#define KILL_SECONDS 12.0
#define LATE_SECONDS 60.0

enum { LINE = 65536, NUMA_MOST = 1024 };

/* An output of a rank. */
struct channel {
    int from, to;
    size_t used;
    char *text; /* LINE bytes: the beginning of a line */
};

struct rank {
    pid_t pid; /* 0: ended */
    int64_t number;
    struct channel out[2];
};

struct pod {
    const struct launch_run *run;
    struct rank *ranks;
    struct pollfd *polls;
    struct supervise_signals *signals;
    int signal_fd;
    int64_t alive;
    int code;      /* of the first that failed; 0: none */
    double failed; /* when; 0: none */
    double ended;  /* when the first rank ended without a failure; 0: none */
    int terminated, killed;
};

/* --- Starting -------------------------------------------------------------------------------- */

static void bind_to_place(const struct placement_task *task)
{
    unsigned long mask[NUMA_MOST / (8 * sizeof(unsigned long))] = {0};
    struct error why;

    if (!task->bound)
        return;
    if (cpuset_bind_thread(&task->cpus, &why) < 0)
        log_warning("%s", why.text);
    for (size_t i = 0; i < task->numa_count; i++)
        if (task->numa[i] >= 0 && task->numa[i] < NUMA_MOST)
            mask[(size_t)task->numa[i] / (8 * sizeof(mask[0]))] |=
                1UL << ((size_t)task->numa[i] % (8 * sizeof(mask[0])));
    /* Containers often forbid this call: their memory is then allocated near the CPUs anyway. */
    if (task->numa_count > 0)
        syscall(SYS_set_mempolicy, MPOL_BIND, mask, NUMA_MOST + 1);
}

static void set_variable(const char *name, const char *value)
{
    if (setenv(name, value, 1) == 0)
        return;
    fprintf(stderr, "megatron launch: cannot set %s: %s\n", name, strerror(errno));
    _exit(126);
}

/* In the new process. Never returns. */
static void become_rank(const struct pod *pod, const struct rank *rank, int64_t local,
                        const char *const *words)
{
    const struct launch_run *run = pod->run;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), number;
    struct error why;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0); /* the terminal's Ctrl-C goes to the launcher, which forwards it once */
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    if (run->label) {
        dup2(rank->out[0].to, STDOUT_FILENO);
        dup2(rank->out[1].to, STDERR_FILENO);
    }
    launch_environment(run, local, set_variable);
    if (run->places->placement)
        bind_to_place(&run->places->placement->tasks[local]);
    sigprocmask(SIG_SETMASK, &pod->signals->before, NULL);
    execvp(words[0], (char *const *)(uintptr_t)words);
    number = errno;
    error_set_errno(&why, number, "cannot start %s", words[0]);
    if (number == ENOENT)
        error_append(&why, "; check its name and PATH");
    fprintf(stderr, "megatron launch: %s\n", why.text);
    _exit(number == ENOENT ? 127 : 126);
}

static int open_channels(struct rank *rank, struct error *err)
{
    for (int i = 0; i < 2; i++) {
        int ends[2];

        rank->out[i].text = malloc(LINE);
        if (!rank->out[i].text)
            return error_set(err, "out of memory");
        if (pipe2(ends, O_CLOEXEC) < 0)
            return error_set_errno(err, errno, "cannot create a pipe for the output of a rank");
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        rank->out[i].from = ends[0];
        rank->out[i].to = ends[1];
    }
    return 0;
}

static int start_rank(struct pod *pod, int64_t local, const char *const *words, struct error *err)
{
    struct rank *rank = &pod->ranks[local];
    rank->number = pod->run->pod->node_rank * pod->run->ranks + local;
    if (pod->run->label && open_channels(rank, err) < 0)
        return -1;
    fflush(NULL);
    rank->pid = fork();
    if (rank->pid == 0)
        become_rank(pod, rank, local, words);
    for (int i = 0; i < 2 && pod->run->label; i++) {
        close(rank->out[i].to);
        rank->out[i].to = i == 0 ? STDOUT_FILENO : STDERR_FILENO;
    }
    if (rank->pid < 0) {
        rank->pid = 0;
        return error_set_errno(err, errno, "cannot start rank %" PRId64, rank->number);
    }
    setpgid(rank->pid, rank->pid);
    pod->alive++;
    return 0;
}

/* --- Output ---------------------------------------------------------------------------------- */

/* The run continues if nobody reads its output. */
static void write_all(int to, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t wrote = write(to, text, size);

        if (wrote > 0) {
            text += wrote;
            size -= (size_t)wrote;
        } else if (wrote < 0 && errno == EAGAIN) {
            struct pollfd p = {to, POLLOUT, 0};

            poll(&p, 1, 1000);
        } else if (errno != EINTR) {
            return;
        }
    }
}

/* Print complete lines, each prefixed with its rank and written in one call, so that lines of
 * different ranks do not mix; with 'rest', also an incomplete last line. */
static void print_lines(const struct rank *rank, struct channel *c, int rest)
{
    char line[LINE + 32];
    size_t begin = 0;

    while (begin < c->used) {
        const char *end = memchr(c->text + begin, '\n', c->used - begin);
        size_t length = end ? (size_t)(end - (c->text + begin)) : c->used - begin;
        int used;

        if (!end && !rest && !(begin == 0 && c->used == LINE))
            break;
        used = snprintf(line, sizeof(line), "%" PRId64 ": ", rank->number);
        memcpy(line + used, c->text + begin, length);
        line[(size_t)used + length] = '\n';
        write_all(c->to, line, (size_t)used + length + 1);
        begin += length + (end != NULL);
    }
    memmove(c->text, c->text + begin, c->used - begin);
    c->used -= begin;
}

/* Returns 0 when the output has ended. */
static int read_output(const struct rank *rank, struct channel *c)
{
    for (;;) {
        ssize_t got = read(c->from, c->text + c->used, LINE - c->used);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return 1;
        if (got <= 0)
            break;
        c->used += (size_t)got;
        print_lines(rank, c, 0);
    }
    print_lines(rank, c, 1);
    close(c->from);
    c->from = -1;
    return 0;
}

static void close_output(struct rank *rank)
{
    for (int i = 0; i < 2; i++) {
        struct channel *c = &rank->out[i];

        if (c->text && c->from >= 0 && read_output(rank, c))
            print_lines(rank, c, 1);
        if (c->text && c->from >= 0)
            close(c->from);
        free(c->text);
        c->text = NULL;
    }
}

/* --- Signals and ends ------------------------------------------------------------------------ */

static void signal_all(const struct pod *pod, int number)
{
    for (int64_t i = 0; i < pod->run->ranks; i++)
        if (pod->ranks[i].pid > 0)
            kill(number == SIGKILL ? -pod->ranks[i].pid : pod->ranks[i].pid, number);
}

static void take_signals(struct pod *pod)
{
    struct signalfd_siginfo info;

    while (read(pod->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int number = (int)info.ssi_signo;

        if (number == SIGCHLD)
            continue;
        pod->signals->received |= number == SIGTERM;
        pod->signals->stopped |= number == SIGTERM || number == SIGINT;
        signal_all(pod, number);
    }
}

static void record_end(struct pod *pod, struct rank *rank, int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

    rank->pid = 0;
    pod->alive--;
    if (WIFSIGNALED(status) && !pod->terminated && !pod->killed && !pod->signals->stopped) {
        char line[256];
        int length = snprintf(
            line, sizeof(line),
            "megatron launch: rank %" PRId64
            " was killed by signal %d (%s); see its output above, and dmesg on this node\n",
            rank->number, WTERMSIG(status), strsignal(WTERMSIG(status)));

        write_all(STDERR_FILENO, line, (size_t)length);
    }
    /* Ranks that end early have agreed on it, and each takes its time. */
    if (code == 0 || code == TRAIN_ENDED_EARLY) {
        if (pod->ended == 0)
            pod->ended = clock_now();
        if (code != 0 && pod->code == 0)
            pod->code = code;
    } else if (pod->failed == 0) {
        pod->failed = clock_now();
        pod->code = code;
    }
}

/* Reap ranks, and children that they left behind, which are this process's if it is PID 1. */
static void reap(struct pod *pod)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int64_t i = 0; i < pod->run->ranks; i++)
            if (pod->ranks[i].pid == pid)
                record_end(pod, &pod->ranks[i], status);
}

/* End the remaining ranks of a run that cannot continue. */
static void end_others(struct pod *pod)
{
    double now = clock_now(), since = pod->failed > 0 ? now - pod->failed : 0;
    int late = pod->code == TRAIN_ENDED_EARLY && now - pod->ended > LATE_SECONDS;

    if (!pod->terminated && (since > SELF_SECONDS || late)) {
        pod->terminated = 1;
        signal_all(pod, SIGTERM);
    }
    if (!pod->killed &&
        (since > KILL_SECONDS || (late && now - pod->ended > LATE_SECONDS + KILL_SECONDS))) {
        pod->killed = 1;
        signal_all(pod, SIGKILL);
    }
}

static void wait_for_all(struct pod *pod)
{
    while (pod->alive > 0) {
        size_t count = 0;

        pod->polls[count++] = (struct pollfd){pod->signal_fd, POLLIN, 0};
        for (int64_t i = 0; i < pod->run->ranks && pod->run->label; i++)
            for (int k = 0; k < 2; k++)
                pod->polls[count++] = (struct pollfd){pod->ranks[i].out[k].from, POLLIN, 0};
        poll(pod->polls, count, 200);
        take_signals(pod);
        for (size_t i = 1; i < count; i++)
            if (pod->polls[i].revents)
                read_output(&pod->ranks[(i - 1) / 2], &pod->ranks[(i - 1) / 2].out[(i - 1) % 2]);
        reap(pod);
        end_others(pod);
    }
}

static void close_pod(struct pod *pod)
{
    for (int64_t i = 0; pod->ranks && i < pod->run->ranks; i++)
        close_output(&pod->ranks[i]);
    if (pod->signal_fd >= 0)
        close(pod->signal_fd);
    free(pod->ranks);
    free(pod->polls);
}

int launch_ranks(const struct launch_run *run, const char *const *words,
                 struct supervise_signals *signals, struct error *err)
{
    struct pod pod = {.run = run, .signals = signals};
    int rc = 0;

    pod.ranks = calloc((size_t)run->ranks, sizeof(*pod.ranks));
    pod.polls = calloc(2 * (size_t)run->ranks + 1, sizeof(*pod.polls));
    pod.signal_fd = signalfd(-1, &signals->waited, SFD_CLOEXEC | SFD_NONBLOCK);
    if (!pod.ranks || !pod.polls || pod.signal_fd < 0)
        rc = error_set(err,
                       "cannot start %" PRId64 " ranks: out of memory or file descriptors; raise "
                       "their limits (memory of the pod, ulimit -n)",
                       run->ranks);
    for (int64_t i = 0; rc == 0 && i < run->ranks; i++)
        rc = start_rank(&pod, i, words, err);
    if (rc < 0) {
        pod.killed = 1;
        if (pod.ranks)
            signal_all(&pod, SIGKILL);
    }
    if (pod.alive > 0)
        wait_for_all(&pod);
    close_pod(&pod);
    return rc < 0 ? -1 : pod.code;
}
