/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "run/plan/calibrate.h"
#include "base/core/storage.h"
#include "base/core/nvml_gpus.h"
#include "engine/parallel/ranks.h"

/* The machine file's kind for a device: the one named, or the first with such a GPU, whose memory
 * is measured; NULL if there is none. */
static const struct machine *find_kind(const struct plan_options *options,
                                       const struct machines *machines, const struct device *device,
                                       struct error *err)
{
    return options->node ? machines_find(machines, options->node, err)
                         : machines_find_gpu(machines, device->model, 1, NULL);
}

/* Defaults for a device of a kind that no machine file describes. */
static int unknown_kind(struct machine *machine, struct device *device, struct error *err)
{
    struct device_memory memory;

    if (device_memory(device, &memory, err) < 0)
        return -1;
    *machine = machine_usual();
    machine->gpu.processors = 1;
    machine->gpu.memory_bytes = (double)memory.total;
    machine->nvlink = 10e9;
    machine->network = 1e9;
    return 0;
}

/* What this node reports about itself, which overrides what its kind has. */
static int describe_node(struct machine *machine, struct device *device, struct error *err)
{
    struct error none;
    struct nvml_gpus *gpus = nvml_gpus_open(&none);
    int cpu = strcmp(device->name, "cpu") == 0;
    struct device_memory memory;

    if (gpus && !cpu && nvml_gpus_count(gpus) > 0)
        machine->gpus = nvml_gpus_count(gpus);
    nvml_gpus_close(gpus);
    if (device_memory(device, &memory, err) < 0)
        return -1;
    if (!cpu)
        machine->gpu.memory_bytes = (double)memory.total;
    return 0;
}

/* Print what was measured between ranks. */
static void print_links(const struct machine *machine, const struct world *world)
{
    const struct machine_rates *rates = &machine->gpu.rates;

    printf("%lld ranks on %lld node%s:", (long long)world->size, (long long)world->nodes,
           world->nodes == 1 ? "" : "s");
    if (world->size > world->nodes)
        printf(" links of a node %.4g GB/s",
               machine->nvlink * rates->nvlink * machine->nvlink_efficiency / 1e9);
    if (world->nodes > 1)
        printf(" network %.4g GB/s per rank", machine->network * rates->network / 1e9);
    printf("\n");
}

static int calibrate_here(const struct plan_options *options, const struct machines *machines,
                          struct device *device, const struct world *world, struct error *err)
{
    const struct machine *kind = find_kind(options, machines, device, err);
    struct machine machine;

    if (!kind && options->node)
        return -1;
    if (kind)
        machine = *kind;
    else if (unknown_kind(&machine, device, err) < 0)
        return -1;
    machine.gpu.rates = machine.gpu.own; /* what is measured is this program */
    if (world->size > 1 && calibrate_collectives(&machine, kind != NULL, device, world, err) < 0)
        return -1;
    if (world->rank > 0)
        return 0;
    if (describe_node(&machine, device, err) < 0 || calibrate(&machine, device, err) < 0 ||
        calibrate_steps(&machine, strcmp(device->name, "cpu") != 0, err) < 0)
        return -1;
    snprintf(machine.name, sizeof(machine.name), "calibrated");
    snprintf(machine.gpu.name, sizeof(machine.gpu.name), "%.31s", device->model);
    if (machine_write(&machine, options->calibrate, err) < 0)
        return -1;
    if (world->size > 1)
        print_links(&machine, world);
    printf("%s, based on %s: products %.4g TFLOP/s, attention %.4g TFLOP/s, copies %.0f GB/s, "
           "%d models; %s has node kind \"calibrated\"\n",
           device->model, kind ? kind->name : "no known kind",
           machine.gpu.flops[MACHINE_BF16] * machine.gpu.rates.product * machine.efficiency / 1e12,
           machine.gpu.flops[MACHINE_BF16] * machine.gpu.rates.flash / 1e12,
           machine.gpu.memory_bandwidth * machine.gpu.rates.hbm / 1e9, machine.gpu.step_count,
           options->calibrate);
    return 0;
}

/* Measuring takes minutes: a file that cannot be written is refused before. */
static int check_directory(const char *path, struct error *err)
{
    char directory[PATH_MAX];
    char *slash;

    if (snprintf(directory, sizeof(directory), "%s", path) >= (int)sizeof(directory))
        return error_set_code(err, ERROR_USAGE,
                              "--calibrate: the path is too long; use a shorter one");
    slash = strrchr(directory, '/');
    if (!slash)
        snprintf(directory, sizeof(directory), ".");
    else
        slash[slash == directory] = '\0';
    if (access(directory, W_OK) == 0)
        return 0;
    error_set_errno(err, errno, "--calibrate %s", path);
    return file_path_error(err);
}

int plan_calibrate(const struct plan_options *options, const struct machines *machines,
                   struct error *err)
{
    struct ranks_config config = {.device = (enum device_choice)options->device};
    struct device *device;
    struct world world;
    int rc;

    if (world_read(&world, err) < 0 || check_directory(options->calibrate, err) < 0)
        return -1;
    device = ranks_open_device(&config, &world, err);
    if (!device)
        return -1;
    rc = calibrate_here(options, machines, device, &world, err);
    device_close(device);
    return rc;
}
