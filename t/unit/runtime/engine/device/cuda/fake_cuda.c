/* SPDX-License-Identifier: Apache-2.0 */
/* A driver library without a GPU, for programs that open libcuda.so.1. FAKE_DRIVER is the CUDA
 * version that it supports, FAKE_INIT the return value of cuInit. */
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT int cuInit(unsigned flags);
EXPORT int cuDriverGetVersion(int *version);
EXPORT int cuDeviceGetCount(int *count);
EXPORT int cuGetProcAddress(const char *name, void **function, int version, unsigned long flags);
EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long flags,
                               int *status);
EXPORT int cuGetExportTable(const void **table, const void *id);

enum { NO_DEVICE = 100 };

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text ? atoi(text) : otherwise;
}

int cuInit(unsigned flags)
{
    (void)flags;
    return number("FAKE_INIT", 0);
}

int cuDriverGetVersion(int *version)
{
    *version = number("FAKE_DRIVER", 99990);
    return 0;
}

int cuDeviceGetCount(int *count)
{
    *count = 0;
    return 0;
}

static int refuse(void)
{
    return NO_DEVICE;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long flags,
                        int *status)
{
    static const struct {
        const char *name;
        int (*function)(void);
    } table[] = {
        {"cuInit", (int (*)(void))(void (*)(void))cuInit},
        {"cuDriverGetVersion", (int (*)(void))(void (*)(void))cuDriverGetVersion},
        {"cuDeviceGetCount", (int (*)(void))(void (*)(void))cuDeviceGetCount},
        {"cuGetProcAddress", (int (*)(void))(void (*)(void))cuGetProcAddress_v2},
    };
    int (*found)(void) = refuse;

    (void)version, (void)flags;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(name, table[i].name) == 0)
            found = table[i].function;
    memcpy(function, &found, sizeof(found));
    if (status)
        *status = 0;
    return 0;
}

int cuGetProcAddress(const char *name, void **function, int version, unsigned long flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

int cuGetExportTable(const void **table, const void *id)
{
    (void)id;
    *table = NULL;
    return NO_DEVICE;
}
