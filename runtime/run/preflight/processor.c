/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "processor.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/clock.h"
#include "lib/cpuset.h"
#include "base/core/xmalloc.h"

enum { STEPS = 100000, SAMPLES = 12 };
enum { COPY = 24 << 20 }; /* bytes: more than a core's own caches */

static double cpu_seconds(void)
{
    return clock_read(CLOCK_THREAD_CPUTIME_ID);
}

/* Cores ----------------------------------------------------------------------------------------
 */

/* A chain of dependent multiplications in registers: its time depends on the clock alone. */
static double time_chain(uint64_t *state)
{
    double begin = cpu_seconds();
    uint64_t x = *state;

    for (int i = 0; i < STEPS; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    *state = x;
    return cpu_seconds() - begin;
}

static double best_chain(int samples)
{
    uint64_t state = 1;
    double best = INFINITY;

    for (int i = 0; i < samples; i++)
        best = fmin(best, time_chain(&state));
    return state == 0 ? INFINITY : best; /* never; but the loop must not be removed */
}

/* Run on each core in turn. If a core cannot be chosen, as in some containers, only the current one
 * is measured. */
static void measure_cores(struct processor *p, double until)
{
    struct cpuset all, one;
    struct error ignored;
    double slowest = 0;

    p->slowest = sched_getcpu();
    if (cpuset_of_thread(&all, &ignored) == 0) {
        for (int cpu = cpuset_next(&all, -1); cpu >= 0 && (slowest == 0 || clock_now() < until);
             cpu = cpuset_next(&all, cpu)) {
            double best;

            cpuset_clear(&one);
            cpuset_add(&one, cpu);
            if (cpuset_bind_thread(&one, &ignored) < 0)
                continue;
            best = best_chain(SAMPLES);
            if (best > slowest) {
                slowest = best;
                p->slowest = cpu;
            }
        }
        cpuset_bind_thread(&all, &ignored);
    }
    if (slowest == 0)
        slowest = best_chain(SAMPLES);
    p->core = STEPS / slowest;
}

/* Memory ---------------------------------------------------------------------------------------
 */

static void measure_memory(struct processor *p, double until)
{
    char *from = xmalloc(COPY), *to = xmalloc(COPY);
    double best = INFINITY;
    int count = 0;

    memset(from, 1, COPY);
    memset(to, 2, COPY);
    while (count++ < SAMPLES || clock_now() < until) {
        double begin = cpu_seconds();

        memcpy(to, from, COPY);
        best = fmin(best, cpu_seconds() - begin);
        from[count % COPY] = to[COPY - 1]; /* every copy is needed */
        if (clock_now() > until + 5)
            break;
    }
    p->memory = 2.0 * COPY / best;
    free(from);
    free(to);
}

/* Time that is lost -----------------------------------------------------------------------------
 */

/* The second number of schedstat: nanoseconds that this thread waited on a run queue. */
static double run_delay(void)
{
    unsigned long long ran = 0, waited = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "re");

    if (!file)
        return 0;
    if (fscanf(file, "%llu %llu", &ran, &waited) != 2)
        waited = 0;
    fclose(file);
    return 1e-9 * (double)waited;
}

static double throttled_of(const char *directory)
{
    char path[PATH_MAX], line[128];
    unsigned long long number;
    double seconds = 0;
    FILE *file;

    if (snprintf(path, sizeof(path), "%s/cpu.stat", directory) >= (int)sizeof(path))
        return 0;
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "throttled_usec %llu", &number) == 1)
            seconds = 1e-6 * (double)number;
        else if (sscanf(line, "throttled_time %llu", &number) == 1)
            seconds = 1e-9 * (double)number;
    }
    if (file)
        fclose(file);
    return seconds;
}

/* Seconds for which this process's cgroups have been out of their CPU quota. */
static double quota_delay(void)
{
    char line[PATH_MAX], path[2 * PATH_MAX];
    FILE *file = fopen("/proc/self/cgroup", "re");
    double most = 0;

    while (file && fgets(line, sizeof(line), file)) {
        char *names = strchr(line, ':'), *at = names ? strchr(names + 1, ':') : NULL;

        line[strcspn(line, "\n")] = '\0';
        if (!at)
            continue;
        *at++ = '\0';
        if (names[1] == '\0') /* version 2 */
            snprintf(path, sizeof(path), "/sys/fs/cgroup%s", at);
        else if (strstr(names, "cpu,") || strcmp(names + strlen(names) - 4, ":cpu") == 0)
            snprintf(path, sizeof(path), "/sys/fs/cgroup/cpu%s", at);
        else
            continue;
        most = fmax(most, throttled_of(path));
    }
    if (file)
        fclose(file);
    return most;
}

void shares_begin(struct shares *begin)
{
    begin->delay = run_delay();
    begin->limited = quota_delay();
    begin->cpu = cpu_seconds();
    begin->wall = clock_now();
}

static double between(double value, double low, double high)
{
    return fmin(fmax(value, low), high);
}

void shares_end(const struct shares *begin, double *waiting, double *held)
{
    double wall = clock_now() - begin->wall, cpu = cpu_seconds() - begin->cpu;
    double delay = run_delay() - begin->delay, limited = quota_delay() - begin->limited;

    if (wall <= 0)
        wall = 1e-9;
    /* A thread without quota left waits on a run queue, too. */
    limited = between(limited, 0, delay);
    *waiting = between((delay - limited) / wall, 0, 1);
    *held = between((wall - cpu - (delay - limited)) / wall, 0, 1);
}

void processor_measure(struct processor *p, double seconds)
{
    double begin = clock_now();
    struct shares shares;
    uint64_t state = 1;

    measure_cores(p, begin + 0.3 * seconds);
    measure_memory(p, clock_now() + 0.3 * seconds);
    shares_begin(&shares);
    for (double until = clock_now() + 0.4 * seconds; clock_now() < until;)
        if (time_chain(&state) < 0)
            break;
    shares_end(&shares, &p->waiting, &p->held);
}
