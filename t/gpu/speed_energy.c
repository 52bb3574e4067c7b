/* SPDX-License-Identifier: Apache-2.0 */
/* The energy of an operation that runs for two seconds. At a GPU's power limit a training step
 * takes its energy divided by that limit, whatever its parts take by themselves. */
#include "speed.h"

#include "clock.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The counter of the first GPU in the driver's order, and its reading in millijoules. */
static struct {
    int (*total)(void *gpu, unsigned long long *millijoules);
    void *gpu;
} counter;

static void find(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);

    memcpy(to, &symbol, sizeof(symbol));
}

int energy_open(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    int (*init)(void) = NULL, (*handle)(unsigned index, void **gpu) = NULL;

    if (library) {
        find(library, "nvmlInit_v2", &init);
        find(library, "nvmlDeviceGetHandleByIndex_v2", &handle);
        find(library, "nvmlDeviceGetTotalEnergyConsumption", &counter.total);
    }
    return init && handle && counter.total && init() == 0 && handle(0, &counter.gpu) == 0 ? 0 : -1;
}

static unsigned long long read_counter(void)
{
    unsigned long long millijoules = 0;

    if (counter.total(counter.gpu, &millijoules) != 0) {
        fprintf(stderr, "speed: the GPU does not count its energy\n");
        exit(1);
    }
    return millijoules;
}

/* Run for some milliseconds. */
static int run_some(void (*run)(struct device_plan *), struct device_plan *plan, double once)
{
    int count = 1 + (int)(0.005 / once);

    for (int i = 0; i < count; i++)
        run(plan);
    finish();
    return count;
}

/* The counter changes every few hundredths of a second: run until it does, for a second at most. */
static int run_to_tick(void (*run)(struct device_plan *), struct device_plan *plan, double once)
{
    double until = clock_now() + 1;
    unsigned long long before = read_counter();
    int count = 0;

    while (read_counter() == before && clock_now() < until)
        count += run_some(run, plan, once);
    return count;
}

struct energy energy_measure(void (*run)(struct device_plan *), struct device_plan *plan,
                             double once)
{
    double began = clock_now(), seconds;
    unsigned long long from;
    int count = 0;

    while (clock_now() < began + 0.5) /* until clocks have fallen */
        run_some(run, plan, once);
    run_to_tick(run, plan, once);
    began = clock_now();
    from = read_counter();
    while (clock_now() < began + 1.5)
        count += run_some(run, plan, once);
    count += run_to_tick(run, plan, once);
    seconds = clock_now() - began;
    return (struct energy){seconds / count, (double)(read_counter() - from) * 1e-3 / count};
}
