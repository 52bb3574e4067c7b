/* SPDX-License-Identifier: Apache-2.0 */
/* A fake NVML that reports what its environment variables specify: the real one needs a driver. */
#include <stdlib.h>

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text ? atoi(text) : otherwise;
}

#define EXPORT __attribute__((visibility("default")))
EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT const char *nvmlErrorString(int status);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **gpu);
EXPORT int nvmlDeviceGetTotalEccErrors(void *gpu, int type, int counter, unsigned long long *count);
EXPORT int nvmlDeviceGetRemappedRows(void *gpu, unsigned *corrected, unsigned *uncorrected,
                                     unsigned *pending, unsigned *failed);
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *reasons);
EXPORT int nvmlDeviceGetNvLinkState(void *gpu, unsigned link, unsigned *active);

static int gpu_of_the_test;

int nvmlInit_v2(void)
{
    return number("FAKE_INIT", 0);
}

int nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(int status)
{
    return status == 9 ? "Driver Not Loaded" : status == 6 ? "Not Found" : "Unknown Error";
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **gpu)
{
    *gpu = &gpu_of_the_test;
    return bus[0] == '0' ? number("FAKE_HANDLE", 0) : 2;
}

int nvmlDeviceGetTotalEccErrors(void *gpu, int type, int counter, unsigned long long *count)
{
    *count = (unsigned long long)number("FAKE_ECC", 0);
    return gpu == &gpu_of_the_test && type == 1 && counter == 0 ? 0 : 2;
}

int nvmlDeviceGetRemappedRows(void *gpu, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed)
{
    *corrected = *uncorrected = 1;
    *pending = (unsigned)number("FAKE_PENDING", 0);
    *failed = (unsigned)number("FAKE_FAILED", 0);
    return gpu == &gpu_of_the_test ? 0 : 2;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *reasons)
{
    *reasons = (unsigned long long)number("FAKE_REASONS", 0);
    return gpu == &gpu_of_the_test ? 0 : 2;
}

/* FAKE_LINKS links, of which the last FAKE_DOWN are down. */
int nvmlDeviceGetNvLinkState(void *gpu, unsigned link, unsigned *active)
{
    int links = number("FAKE_LINKS", 0), down = number("FAKE_DOWN", 0);

    if (gpu != &gpu_of_the_test || (int)link >= links)
        return 3;
    *active = (int)link < links - down;
    return 0;
}
