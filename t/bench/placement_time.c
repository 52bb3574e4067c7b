/* SPDX-License-Identifier: Apache-2.0 */
/* The time to place 8 tasks, including everything that a task does for it: from hwloc's XML and
 * from the file of topology_save. Every run includes dlopen, because medians over one process would
 * hide it. */
#include "lib/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 200, TASKS = 8 };

static double now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
    const double *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

/* Load a topology and place the tasks. Returns milliseconds, or -1. */
static double place(const char *path, struct error *err)
{
    struct placement_request request = {.tasks = TASKS};
    double start = now();
    struct topology *topology = topology_load(path, err);
    struct placement *placement = topology ? placement_create(topology, &request, err) : NULL;
    double time = placement ? now() - start : -1;

    placement_destroy(placement);
    topology_destroy(topology);
    return time;
}

static void print(const char *name, double *times)
{
    qsort(times, RUNS, sizeof(double), by_value);
    printf("%-12s median %.3f ms, 99%% %.3f ms, worst %.3f ms\n", name, times[RUNS / 2],
           times[RUNS * 99 / 100], times[RUNS - 1]);
}

int main(int argc, char **argv)
{
    static double xml[RUNS], text[RUNS];
    char path[] = "/tmp/megatron-bench-XXXXXX";
    struct error err = {.text = ""};
    struct topology *topology = argc == 2 ? topology_load(argv[1], &err) : NULL;
    int fd = mkstemp(path), rc = 1;

    if (!topology || fd < 0 || topology_save(topology, path, &err) < 0) {
        fprintf(stderr, "usage: placement_time FILE.xml %s\n", err.text);
    } else {
        for (int i = 0; i < RUNS; i++) {
            xml[i] = place(argv[1], &err);
            text[i] = place(path, &err);
        }
        printf("%zu cores, %zu CPUs, %zu GPUs, %zu NICs, %d tasks, %d runs each, interleaved\n",
               topology->core_count, topology->cpu_count, topology->gpu_count, topology->nic_count,
               TASKS, RUNS);
        print("hwloc XML", xml);
        print("saved file", text);
        rc = xml[0] < 0 || text[0] < 0;
    }
    topology_destroy(topology);
    unlink(path);
    return rc;
}
