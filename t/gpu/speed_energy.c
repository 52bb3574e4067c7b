/* SPDX-License-Identifier: Apache-2.0 */
/* The energy of an operation that runs for two seconds. At a GPU's power limit a training step
 * takes its energy divided by that limit, whatever its parts take by themselves. */
#include "speed.h"

#include "lib/clock.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The GPU's counter, and its reading in millijoules. */
static struct {
    int (*total)(void *gpu, unsigned long long *millijoules);
    void *gpu;
} counter;

static void stop(const char *reason)
{
    fprintf(stderr, "speed: cannot measure energy: %s\n", reason);
    exit(1);
}

static void find(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);

    if (!symbol)
        stop("libnvidia-ml.so.1 is too old for this program");
    memcpy(to, &symbol, sizeof(symbol));
}

static unsigned long long read_counter(void)
{
    unsigned long long millijoules = 0;

    if (counter.total(counter.gpu, &millijoules) != 0)
        stop("this kind of GPU does not count it");
    return millijoules;
}

void energy_open(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    int (*init)(void), (*count)(unsigned *gpus), (*handle)(unsigned index, void **gpu);
    unsigned gpus = 0;

    if (!library)
        stop("libnvidia-ml.so.1 of the driver is not found");
    find(library, "nvmlInit_v2", &init);
    find(library, "nvmlDeviceGetCount_v2", &count);
    find(library, "nvmlDeviceGetHandleByIndex_v2", &handle);
    find(library, "nvmlDeviceGetTotalEnergyConsumption", &counter.total);
    if (init() != 0 || count(&gpus) != 0)
        stop("NVML does not start; run nvidia-smi");
    if (gpus != 1) /* NVML's order of several GPUs may not be CUDA's */
        stop("the node must have one GPU");
    if (handle(0, &counter.gpu) != 0)
        stop("NVML does not find the GPU; run nvidia-smi");
    read_counter();
}

/* Run for about so many seconds. */
static int run_for(double seconds, void (*run)(struct device_plan *), struct device_plan *plan,
                   double once)
{
    int count = 1 + (int)(seconds / once);

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
        count += run_for(0.005, run, plan, once);
    return count;
}

/* Between ticks a few long batches: after each of them the GPU is idle for a moment. */
struct energy energy_measure(void (*run)(struct device_plan *), struct device_plan *plan,
                             double once)
{
    double began = clock_now(), seconds;
    unsigned long long from;
    int count = 0;

    while (clock_now() < began + 0.5) /* until clocks have fallen */
        run_for(0.1, run, plan, once);
    run_to_tick(run, plan, once);
    began = clock_now();
    from = read_counter();
    while (clock_now() < began + 1.4)
        count += run_for(0.1, run, plan, once);
    count += run_to_tick(run, plan, once);
    seconds = clock_now() - began;
    return (struct energy){seconds / count, (double)(read_counter() - from) * 1e-3 / count};
}
