/* SPDX-License-Identifier: Apache-2.0 */
#include "nvml.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The library's own numbers; its header is not part of every CUDA toolkit. */
enum { NVML_SUCCESS = 0, NVML_GPU_IS_LOST = 15, NVML_MISMATCH = 18 };
enum { NVML_UNCORRECTED = 1, NVML_SINCE_START = 0, NVML_MAX_LINKS = 18 };

#define UNCHECKED "its health is not checked: "
#define GET_LIBRARY                                                                          \
    "; install the driver package with this library, or make it available in the container " \
    "(NVIDIA_DRIVER_CAPABILITIES=compute,utility)"

struct calls {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int status);
    int (*handle)(const char *bus, void **gpu);
    int (*ecc_errors)(void *gpu, int type, int counter, unsigned long long *count);
    int (*remapped_rows)(void *gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                         unsigned *failed);
    int (*throttle_reasons)(void *gpu, unsigned long long *reasons);
    int (*link_state)(void *gpu, unsigned link, unsigned *active);
};

/* Append a line of text if it fits. */
struct notes {
    char *text;
    size_t used, size;
};

__attribute__((format(printf, 2, 3))) static void note(struct notes *notes, const char *format, ...)
{
    char line[512];
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(line, sizeof(line) - 1, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof(line) - 1)
        return;
    line[length++] = '\n';
    if ((size_t)length >= notes->size - notes->used)
        return;
    memcpy(notes->text + notes->used, line, (size_t)length);
    notes->used += (size_t)length;
    notes->text[notes->used] = '\0';
}

/* Returns the name of a required function that is missing, or NULL. The others were added by
 * drivers over the years. */
static const char *find_calls(void *handle, struct calls *calls)
{
    const struct {
        const char *name;
        void *to;
        int needed;
    } table[] = {
        {"nvmlInit_v2", &calls->init, 1},
        {"nvmlShutdown", &calls->shutdown, 1},
        {"nvmlErrorString", &calls->error_string, 1},
        {"nvmlDeviceGetHandleByPciBusId_v2", &calls->handle, 1},
        {"nvmlDeviceGetTotalEccErrors", &calls->ecc_errors, 0},
        {"nvmlDeviceGetRemappedRows", &calls->remapped_rows, 0},
        {"nvmlDeviceGetCurrentClocksThrottleReasons", &calls->throttle_reasons, 0},
        {"nvmlDeviceGetNvLinkState", &calls->link_state, 0},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        void *symbol = dlsym(handle, table[i].name);

        if (!symbol && table[i].needed)
            return table[i].name;
        memcpy(table[i].to, &symbol, sizeof(symbol));
    }
    return NULL;
}

/* The library's handle, or NULL with a line that names what is missing. */
static void *open_library(const char *name, struct calls *calls, struct notes *notes)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    const char *missing;

    if (!handle) {
        note(notes, UNCHECKED "%.200s" GET_LIBRARY, dlerror());
        return NULL;
    }
    missing = find_calls(handle, calls);
    if (!missing)
        return handle;
    note(notes, UNCHECKED "%.100s has no %s, it is not the driver's library" GET_LIBRARY, name,
         missing);
    dlclose(handle);
    return NULL;
}

static void check_memory_errors(const struct calls *calls, void *gpu, struct notes *notes)
{
    unsigned long long errors = 0;
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;

    if (calls->ecc_errors &&
        calls->ecc_errors(gpu, NVML_UNCORRECTED, NVML_SINCE_START, &errors) == NVML_SUCCESS &&
        errors > 0)
        note(notes,
             "%llu memory errors that ECC could not correct since the driver was loaded; reset the "
             "GPU (nvidia-smi --gpu-reset), and drain the node if they recur",
             errors);
    if (!calls->remapped_rows ||
        calls->remapped_rows(gpu, &corrected, &uncorrected, &pending, &failed) != NVML_SUCCESS)
        return;
    if (failed)
        note(notes, "it has no spare memory rows left for faulty ones; drain the node and have the "
                    "GPU replaced");
    else if (pending)
        note(notes, "faulty memory rows will be replaced at the next reset; reset the GPU "
                    "(nvidia-smi --gpu-reset) when the node is free");
}

static void check_clocks(const struct calls *calls, void *gpu, struct notes *notes)
{
    /* The software power limit and idle clocks are normal and not listed. */
    static const struct {
        unsigned long long bit;
        const char *text;
    } reasons[] = {
        {0x20, "its clocks are lowered because it is hot (software limit); check the cooling"},
        {0x40, "its clocks are lowered because it is hot (hardware limit); check the cooling"},
        {0x80, "its clocks are lowered by the power brake; check the node's power supplies"},
    };
    const unsigned long long slowdown = 0x8;
    unsigned long long now = 0;
    int named = 0;

    if (!calls->throttle_reasons || calls->throttle_reasons(gpu, &now) != NVML_SUCCESS)
        return;
    for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++) {
        if (now & reasons[i].bit) {
            note(notes, "%s", reasons[i].text);
            named = 1;
        }
    }
    if ((now & slowdown) && !named)
        note(notes, "its clocks are lowered by the hardware (heat or power); check nvidia-smi -q "
                    "-d PERFORMANCE");
}

/* A GPU without NVLink reports every link as not supported. */
static void check_links(const struct calls *calls, void *gpu, struct notes *notes)
{
    unsigned up = 0, down = 0, first = 0, active;

    for (unsigned link = 0; calls->link_state && link < NVML_MAX_LINKS; link++) {
        if (calls->link_state(gpu, link, &active) != NVML_SUCCESS)
            continue;
        if (active)
            up++;
        else if (down++ == 0)
            first = link;
    }
    if (up > 0 && down > 0)
        note(notes,
             "%u of its %u NVLinks are down (the first is link %u); collectives will be slow; "
             "check nvidia-smi nvlink --status",
             down, up + down, first);
}

/* CUDA has found the GPU: if this library does not, that is only worth a line, unless it reports
 * that the GPU is lost. */
static int check_gpu(const struct calls *calls, const char *bus, struct notes *notes,
                     struct error *err)
{
    void *gpu;
    int status = calls->handle(bus, &gpu);

    if (status == NVML_GPU_IS_LOST)
        return error_set(err,
                         "the GPU at %s has fallen off the bus; drain the node and reset or "
                         "replace it",
                         bus);
    if (status != NVML_SUCCESS) {
        note(notes, UNCHECKED "NVML cannot find the GPU at %s: %.100s; check nvidia-smi", bus,
             calls->error_string(status));
        return 0;
    }
    check_memory_errors(calls, gpu, notes);
    check_clocks(calls, gpu, notes);
    check_links(calls, gpu, notes);
    return 0;
}

int nvml_check(const char *library, const char *bus, int first, char *text, size_t size,
               struct error *err)
{
    struct notes notes = {text, 0, size};
    struct calls calls;
    void *handle;
    int status, rc = 0;

    text[0] = '\0';
    handle = open_library(library ? library : "libnvidia-ml.so.1", &calls, &notes);
    if (!handle) {
        if (!first)
            text[0] = '\0';
        return 0;
    }
    status = calls.init();
    if (status == NVML_SUCCESS) {
        rc = check_gpu(&calls, bus, &notes, err);
        calls.shutdown();
    } else if (status == NVML_MISMATCH) {
        rc = error_set(err, "the NVIDIA driver in the kernel and its libraries are of different "
                            "versions; reboot the node or load the new driver");
    } else {
        note(&notes, UNCHECKED "cannot initialize NVML: %.100s; check nvidia-smi",
             calls.error_string(status));
    }
    dlclose(handle);
    return rc;
}
