/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for the driver's libnvidia-ml.so.1: healthy GPUs, except for what the environment
 * says. FAKE_GPUS (default 2), FAKE_DRIVER, FAKE_ECC (errors of GPU 1), FAKE_SLOW (reasons for
 * lower clocks of GPU 0, a number), FAKE_WIDTH (PCIe lanes of GPU 0), FAKE_LINK_DOWN (a link of GPU
 * 1). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, LINKS = 4 };

struct pci_info {
    char legacy[16];
    unsigned domain, bus, device, ids, subsystem;
    char bus_id[32];
};

static long setting(const char *name, long usual)
{
    const char *text = getenv(name);

    return text ? strtol(text, NULL, 0) : usual;
}

int nvmlInit_v2(void)
{
    return SUCCESS;
}

int nvmlShutdown(void)
{
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *text, unsigned length)
{
    const char *version = getenv("FAKE_DRIVER");

    snprintf(text, length, "%s", version ? version : "570.86.15");
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = (unsigned)setting("FAKE_GPUS", 2);
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu)
{
    *gpu = (void *)(uintptr_t)(index + 1);
    return SUCCESS;
}

static unsigned index_of(void *gpu)
{
    return (unsigned)(uintptr_t)gpu - 1;
}

int nvmlDeviceGetPciInfo_v3(void *gpu, struct pci_info *info)
{
    memset(info, 0, sizeof(*info));
    info->bus = 0x53 + 0x11 * index_of(gpu);
    return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(void *gpu, int type, int counter, unsigned long long *count)
{
    (void)type, (void)counter;
    *count = index_of(gpu) == 1 ? (unsigned long long)setting("FAKE_ECC", 0) : 0;
    return SUCCESS;
}

int nvmlDeviceGetRemappedRows(void *gpu, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed)
{
    (void)gpu;
    *corrected = *uncorrected = *pending = *failed = 0;
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *reasons)
{
    /* The power limit, which is normal under load. */
    *reasons = index_of(gpu) == 0 ? (unsigned long long)setting("FAKE_SLOW", 4) : 4;
    return SUCCESS;
}

int nvmlDeviceGetCurrPcieLinkWidth(void *gpu, unsigned *width)
{
    *width = index_of(gpu) == 0 ? (unsigned)setting("FAKE_WIDTH", 16) : 16;
    return SUCCESS;
}

int nvmlDeviceGetMaxPcieLinkWidth(void *gpu, unsigned *width)
{
    (void)gpu;
    *width = 16;
    return SUCCESS;
}

int nvmlDeviceGetCurrPcieLinkGeneration(void *gpu, unsigned *generation)
{
    (void)gpu;
    *generation = 5;
    return SUCCESS;
}

int nvmlDeviceGetMaxPcieLinkGeneration(void *gpu, unsigned *generation)
{
    (void)gpu;
    *generation = 5;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(void *gpu, unsigned link, unsigned *active)
{
    if (link >= LINKS)
        return NOT_SUPPORTED;
    *active = !(index_of(gpu) == 1 && link + 1 == (unsigned)setting("FAKE_LINK_DOWN", 0));
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(void *gpu, int domain, unsigned *megahertz)
{
    (void)gpu, (void)domain;
    *megahertz = 1755;
    return SUCCESS;
}

int nvmlDeviceGetMaxClockInfo(void *gpu, int domain, unsigned *megahertz)
{
    (void)gpu, (void)domain;
    *megahertz = 1980;
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *gpu, unsigned *milliwatts)
{
    *milliwatts = 600000 + 10000 * index_of(gpu);
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void *gpu, int sensor, unsigned *celsius)
{
    (void)sensor;
    *celsius = 60 + index_of(gpu);
    return SUCCESS;
}
