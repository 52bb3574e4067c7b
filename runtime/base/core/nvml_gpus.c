/* SPDX-License-Identifier: Apache-2.0 */
#include "nvml_gpus.h"
#include "xmalloc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The library's own numbers; its header is not part of every CUDA toolkit. */
enum { SUCCESS = 0, UNCORRECTED = 1, SINCE_LOAD = 0, MULTIPROCESSORS = 1, CORE = 0, LINKS = 18 };
enum { REPLAYS = 0, RECOVERIES = 1 };

/* nvmlPciInfo_t */
struct pci_info {
    char legacy[16];
    unsigned domain, bus, device, ids, subsystem;
    char bus_id[32];
};

struct nvml_gpus {
    void *library;
    int initialized, count;
    char driver[80];
    int (*init)(void);
    int (*shutdown)(void);
    int (*driver_version)(char *text, unsigned length);
    int (*device_count)(unsigned *count);
    int (*handle)(unsigned index, void **gpu);
    int (*pci_info)(void *gpu, struct pci_info *info);
    int (*ecc_errors)(void *gpu, int type, int counter, unsigned long long *count);
    int (*remapped_rows)(void *gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                         unsigned *failed);
    int (*slow_reasons)(void *gpu, unsigned long long *reasons);
    int (*width)(void *gpu, unsigned *width);
    int (*most_width)(void *gpu, unsigned *width);
    int (*generation)(void *gpu, unsigned *generation);
    int (*most_generation)(void *gpu, unsigned *generation);
    int (*link_state)(void *gpu, unsigned link, unsigned *active);
    int (*link_errors)(void *gpu, unsigned link, int counter, unsigned long long *count);
    int (*clock)(void *gpu, int domain, unsigned *megahertz);
    int (*most_clock)(void *gpu, int domain, unsigned *megahertz);
    int (*power)(void *gpu, unsigned *milliwatts);
    int (*temperature)(void *gpu, int sensor, unsigned *celsius);
};

const char *gpu_slow_reason(uint64_t reasons)
{
    if (reasons & SLOW_HARD_HEAT)
        return "heat (hardware limit)";
    if (reasons & SLOW_SOFT_HEAT)
        return "heat (software limit)";
    if (reasons & SLOW_POWER_BRAKE)
        return "power brake";
    return reasons & SLOW_HARDWARE ? "hardware slowdown (heat or power)" : "";
}

/* Returns the name of a required function that is missing, or NULL. */
static const char *find_calls(struct nvml_gpus *g)
{
    const struct {
        const char *name;
        void *to;
        int needed;
    } table[] = {
        {"nvmlInit_v2", &g->init, 1},
        {"nvmlShutdown", &g->shutdown, 1},
        {"nvmlSystemGetDriverVersion", &g->driver_version, 0},
        {"nvmlDeviceGetCount_v2", &g->device_count, 1},
        {"nvmlDeviceGetHandleByIndex_v2", &g->handle, 1},
        {"nvmlDeviceGetPciInfo_v3", &g->pci_info, 0},
        {"nvmlDeviceGetTotalEccErrors", &g->ecc_errors, 0},
        {"nvmlDeviceGetRemappedRows", &g->remapped_rows, 0},
        {"nvmlDeviceGetCurrentClocksThrottleReasons", &g->slow_reasons, 0},
        {"nvmlDeviceGetCurrPcieLinkWidth", &g->width, 0},
        {"nvmlDeviceGetMaxPcieLinkWidth", &g->most_width, 0},
        {"nvmlDeviceGetCurrPcieLinkGeneration", &g->generation, 0},
        {"nvmlDeviceGetMaxPcieLinkGeneration", &g->most_generation, 0},
        {"nvmlDeviceGetNvLinkState", &g->link_state, 0},
        {"nvmlDeviceGetNvLinkErrorCounter", &g->link_errors, 0},
        {"nvmlDeviceGetClockInfo", &g->clock, 0},
        {"nvmlDeviceGetMaxClockInfo", &g->most_clock, 0},
        {"nvmlDeviceGetPowerUsage", &g->power, 0},
        {"nvmlDeviceGetTemperature", &g->temperature, 0},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        void *symbol = dlsym(g->library, table[i].name);

        if (!symbol && table[i].needed)
            return table[i].name;
        memcpy(table[i].to, &symbol, sizeof(symbol));
    }
    return NULL;
}

static int start(struct nvml_gpus *g, struct error *err)
{
    const char *missing;
    unsigned count = 0;
    int status;

    g->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!g->library)
        return error_set(err, "cannot load NVML: %s; install the NVIDIA driver", dlerror());
    missing = find_calls(g);
    if (missing)
        return error_set(
            err,
            "libnvidia-ml.so.1 has no %s; it is not the driver's library: reinstall the driver",
            missing);
    status = g->init();
    if (status != SUCCESS)
        return error_set(err, "cannot initialize NVML (error %d); check nvidia-smi", status);
    g->initialized = 1;
    status = g->device_count(&count);
    if (status != SUCCESS)
        return error_set(err, "NVML cannot count the GPUs (error %d); check nvidia-smi", status);
    g->count = (int)count;
    if (!g->driver_version || g->driver_version(g->driver, sizeof(g->driver) - 1) != SUCCESS)
        g->driver[0] = '\0';
    return 0;
}

struct nvml_gpus *nvml_gpus_open(struct error *err)
{
    struct nvml_gpus *gpus = xcalloc(1, sizeof(*gpus));

    if (start(gpus, err) < 0) {
        nvml_gpus_close(gpus);
        return NULL;
    }
    return gpus;
}

void nvml_gpus_close(struct nvml_gpus *gpus)
{
    if (!gpus)
        return;
    if (gpus->initialized)
        gpus->shutdown();
    if (gpus->library)
        dlclose(gpus->library);
    free(gpus);
}

const char *nvml_gpus_driver(const struct nvml_gpus *gpus)
{
    return gpus->driver;
}

int nvml_gpus_count(const struct nvml_gpus *gpus)
{
    return gpus->count;
}

static int32_t number(int (*call)(void *gpu, unsigned *value), void *gpu)
{
    unsigned value;

    return call && call(gpu, &value) == SUCCESS ? (int32_t)value : -1;
}

static void read_links(struct nvml_gpus *g, void *gpu, struct gpu_state *state)
{
    unsigned long long errors;
    unsigned active;

    for (unsigned link = 0; g->link_state && link < LINKS; link++) {
        if (g->link_state(gpu, link, &active) != SUCCESS)
            continue;
        *(active ? &state->links_up : &state->links_down) += 1;
        for (int counter = REPLAYS; g->link_errors && counter <= RECOVERIES; counter++)
            if (g->link_errors(gpu, link, counter, &errors) == SUCCESS)
                state->link_errors += (int64_t)errors;
    }
}

static void read_errors(struct nvml_gpus *g, void *gpu, struct gpu_state *state)
{
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    unsigned long long errors;

    state->uncorrected = state->rows_pending = state->rows_spent = -1;
    if (g->ecc_errors && g->ecc_errors(gpu, UNCORRECTED, SINCE_LOAD, &errors) == SUCCESS)
        state->uncorrected = (int64_t)errors;
    if (g->remapped_rows &&
        g->remapped_rows(gpu, &corrected, &uncorrected, &pending, &failed) == SUCCESS) {
        state->rows_pending = (int32_t)pending;
        state->rows_spent = (int32_t)failed;
    }
}

/* "00000000:53:00.0" as the kernel writes it: lower case, a domain of four digits. */
static void read_bus(struct nvml_gpus *g, void *gpu, struct gpu_state *state)
{
    struct pci_info info;

    memset(&info, 0, sizeof(info));
    if (g->pci_info && g->pci_info(gpu, &info) == SUCCESS)
        snprintf(state->bus, sizeof(state->bus), "%04x:%02x:%02x.0", info.domain, info.bus,
                 info.device);
}

int nvml_gpus_read(struct nvml_gpus *g, int index, struct gpu_state *state)
{
    void *gpu;

    memset(state, 0, sizeof(*state));
    snprintf(state->bus, sizeof(state->bus), "GPU %d", index);
    if (g->handle((unsigned)index, &gpu) != SUCCESS)
        return -1;
    read_bus(g, gpu, state);
    read_errors(g, gpu, state);
    read_links(g, gpu, state);
    state->most_width = number(g->most_width, gpu);
    state->most_generation = number(g->most_generation, gpu);
    state->width = state->generation = -1;
    nvml_gpus_sample(g, index, state);
    return 0;
}

void nvml_gpus_sample(struct nvml_gpus *g, int index, struct gpu_state *state)
{
    unsigned long long reasons;
    unsigned value;
    void *gpu;
    int32_t now;

    if (g->handle((unsigned)index, &gpu) != SUCCESS)
        return;
    if (g->slow_reasons && g->slow_reasons(gpu, &reasons) == SUCCESS)
        state->slow_reasons |= reasons;
    now = number(g->width, gpu);
    state->width = now > state->width ? now : state->width;
    now = number(g->generation, gpu);
    state->generation = now > state->generation ? now : state->generation;
    state->megahertz = state->most_megahertz = -1;
    state->watts = state->celsius = -1;
    if (g->clock && g->clock(gpu, MULTIPROCESSORS, &value) == SUCCESS)
        state->megahertz = (int32_t)value;
    if (g->most_clock && g->most_clock(gpu, MULTIPROCESSORS, &value) == SUCCESS)
        state->most_megahertz = (int32_t)value;
    if (g->power && g->power(gpu, &value) == SUCCESS)
        state->watts = value / 1000.0;
    if (g->temperature && g->temperature(gpu, CORE, &value) == SUCCESS)
        state->celsius = value;
}
