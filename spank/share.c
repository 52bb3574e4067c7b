/* SPDX-License-Identifier: Apache-2.0 */
#include "share.h"
#include "lib/clock.h"
#include "lib/parse.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void share_format_numa(const struct share_result *result, char *text, size_t size)
{
    text[0] = '\0';
    for (int i = 0; i < SHARE_NUMA_MAX; i++)
        if (result->numa[i / 64] >> i % 64 & 1)
            list_text_add(text, size, ",", "%d", i);
}

/* Set a word that processes wait for, and wake them. */
static void set_and_wake(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    syscall(SYS_futex, word, FUTEX_WAKE, SHARE_TASKS_MAX, NULL, NULL, 0);
}

static size_t share_bytes(size_t tasks)
{
    return sizeof(struct share) + tasks * sizeof(struct share_task);
}

struct share *share_create(size_t tasks, struct error *err)
{
    size_t bytes = share_bytes(tasks);
    struct share *share;

    if (tasks < 1 || tasks > SHARE_TASKS_MAX) {
        error_set(err, "cannot place %zu tasks on a node; use at most %d (--ntasks-per-node)",
                  tasks, SHARE_TASKS_MAX);
        return NULL;
    }
    share = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (share == MAP_FAILED) {
        error_set_errno(err, errno,
                        "cannot allocate %zu bytes of shared memory for the tasks of a node",
                        bytes);
        return NULL;
    }
    share->tasks = (uint32_t)tasks;
    return share;
}

void share_destroy(struct share *share, size_t tasks)
{
    if (share)
        munmap(share, share_bytes(tasks));
}

bool share_arrive(struct share *share, size_t index)
{
    __atomic_store_n(&share->task[index].arrived, 1, __ATOMIC_RELEASE);
    return __atomic_add_fetch(&share->arrived, 1, __ATOMIC_ACQ_REL) == share->tasks;
}

void share_finish(struct share *share, enum share_state state)
{
    set_and_wake(&share->state, state);
}

/* Name a task that did not arrive; if all arrived, the leader has died. */
static int say_missing(struct share *share, int seconds, struct error *err)
{
    for (uint32_t i = 0; i < share->tasks; i++)
        if (!__atomic_load_n(&share->task[i].arrived, __ATOMIC_ACQUIRE))
            return error_set(err,
                             "task %u of this node did not start within %d seconds of the others; "
                             "see the log of slurmd",
                             i, seconds);
    return error_set(err, "the task that decides for this node has died; see the log of slurmd, or "
                          "use --megatron-off");
}

int share_wait(struct share *share, int seconds, struct error *err)
{
    double end = clock_now() + seconds;

    while (__atomic_load_n(&share->state, __ATOMIC_ACQUIRE) == SHARE_PENDING) {
        double left = end - clock_now();
        struct timespec wait = {.tv_sec = (time_t)left,
                                .tv_nsec = (long)(1e9 * (left - (double)(time_t)left))};

        if (left < 0)
            return say_missing(share, seconds, err);
        syscall(SYS_futex, &share->state, FUTEX_WAIT, SHARE_PENDING, &wait, NULL, 0);
    }
    return 0;
}

void share_image_finish(struct share *share, enum share_state state)
{
    set_and_wake(&share->image_state, state);
}

int share_image_wait(struct share *share, int64_t seconds, struct error *err)
{
    const struct timespec second = {.tv_sec = 1};
    double begun = clock_now();

    while (__atomic_load_n(&share->image_state, __ATOMIC_ACQUIRE) == SHARE_PENDING) {
        if (kill(share->image_leader, 0) < 0 && errno == ESRCH)
            return error_set(
                err, "the task that starts the container of this node has died; it may have "
                     "run out of memory (raise --mem); see the log of slurmd");
        if (clock_now() - begun > (double)seconds)
            return error_set(err,
                             "the container of this node did not start within %" PRId64
                             " seconds; raise --megatron-import-timeout, or see the log of slurmd",
                             seconds);
        syscall(SYS_futex, &share->image_state, FUTEX_WAIT, SHARE_PENDING, &second, NULL, 0);
    }
    return 0;
}

bool share_claim_report(struct share *share)
{
    uint32_t nobody = 0;

    return __atomic_compare_exchange_n(&share->reported, &nobody, 1, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

void share_reported(struct share *share)
{
    set_and_wake(&share->reported, 2);
}

void share_report_wait(struct share *share, int seconds)
{
    const struct timespec second = {.tv_sec = 1};

    for (int i = 0; i < seconds && __atomic_load_n(&share->reported, __ATOMIC_ACQUIRE) == 1; i++)
        syscall(SYS_futex, &share->reported, FUTEX_WAIT, 1, &second, NULL, 0);
}
