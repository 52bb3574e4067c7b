/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"
#include "lib/file.h"
#include "base/core/locate.h"
#include "base/core/log.h"
#include "lib/parse.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Does the file contain a number that starts with 'digits'? */
static int contains(const char *directory, const char *device, const char *file, const char *digits)
{
    char path[PATH_MAX], text[16];

    if (snprintf(path, sizeof(path), "%s/%s/%s", directory, device, file) >= (int)sizeof(path))
        return 0;
    file_read_line(path, text, sizeof(text));
    return strncmp(text, digits, strlen(digits)) == 0;
}

/* Is there an NVIDIA GPU, with or without its driver? If the driver is not loaded, or a container
 * hides its files, the GPU is still among the PCI devices. */
static int has_gpu(void)
{
    static const char pci[] = "/sys/bus/pci/devices";
    struct dirent *entry;
    DIR *devices;
    int found = access("/dev/nvidiactl", F_OK) == 0;

    if (found || !(devices = opendir(pci)))
        return found;
    while (!found && (entry = readdir(devices)))
        found = contains(pci, entry->d_name, "vendor", "0x10de") &&
                contains(pci, entry->d_name, "class", "0x03"); /* display controllers */
    closedir(devices);
    return found;
}

int ranks_allocated_gpus(void)
{
    const char *text = getenv("SLURM_GPUS_ON_NODE");
    int64_t count = 0;
    struct error ignored;

    if (text && text[0] && parse_int64("", text, 0, INT_MAX, &count, &ignored) < 0)
        count = 0;
    return (int)count;
}

const char *ranks_device(enum device_choice choice)
{
    if (choice == DEVICE_CPU)
        return "cpu";
    return choice == DEVICE_CUDA || ranks_allocated_gpus() > 0 || has_gpu() ? "cuda" : "cpu";
}

/* The directory of tuning results: $MEGATRON_CACHE_DIR, or megatron in the user's cache. */
static const char *cache_directory(char *path, size_t size)
{
    const char *own = getenv("MEGATRON_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int length = -1;

    if (own && own[0])
        length = snprintf(path, size, "%s", own);
    else if (cache && cache[0])
        length = snprintf(path, size, "%s/megatron", cache);
    else if (home && home[0])
        length = snprintf(path, size, "%s/.cache/megatron", home);
    return length > 0 && (size_t)length < size ? path : NULL;
}

/* The directory of tuning results that come with the program: $MEGATRON_TUNING_DIR ("": none), or
 * the installed one. */
static const char *tuning_directory(char *path, size_t size)
{
    const char *own = getenv("MEGATRON_TUNING_DIR");
    struct error none;

    if (own)
        return own[0] ? own : NULL;
    return locate_data("tuning", path, size, &none) == 0 ? path : NULL;
}

/* The GPU assigned by the launcher: the first number of its list. */
static int gpu_index(const struct world *world)
{
    return world->gpus && world->gpus[0] >= '0' && world->gpus[0] <= '9' ? atoi(world->gpus) : -1;
}

/* The name of this node, in 'name' of HOST_NAME_MAX + 1 bytes. */
static const char *node_name(char *name)
{
    name[HOST_NAME_MAX] = '\0';
    if (gethostname(name, HOST_NAME_MAX) < 0)
        name[0] = '\0';
    return name;
}

struct device *ranks_open_device(const struct ranks_config *config, const struct world *world,
                                 struct error *err)
{
    char cache[PATH_MAX], installed[PATH_MAX];
    struct device_options options = {
        .cache_dir = cache_directory(cache, sizeof(cache)),
        .tuning_dir = tuning_directory(installed, sizeof(installed)),
        .index = gpu_index(world),
        .local_rank = (int)world->local_rank,
        .threads = config->threads > 0 ? (int)config->threads : 0,
        .deterministic = config->deterministic,
        .untuned = config->untuned,
        .unfused_attention = config->unfused_attention,
        .random_order = config->random_order,
        .order_seed = config->seed,
    };
    const char *name = ranks_device(config->device);
    const int allocated = ranks_allocated_gpus(), cuda = strcmp(name, "cuda") == 0;
    const int missing = cuda && allocated > 0 && !has_gpu();
    struct device *device = NULL;
    char node[HOST_NAME_MAX + 1];

    if (missing)
        error_set(err,
                  "Slurm allocated %d GPU%s here (SLURM_GPUS_ON_NODE), but the NVIDIA driver shows "
                  "none; ask an administrator to check or drain the node",
                  allocated, allocated == 1 ? "" : "s");
    else
        device = device_open(name, &options, err);
    if (!device && (world->nodes > 1 || (cuda && allocated > 0)))
        error_prefix(err, "node %s", node_name(node));
    if (!device && cuda)
        error_append(err, "; or compute on the CPUs with --device cpu");
    if (missing)
        world_say_once(1, err); /* no rank of this node finds a GPU */
    return device;
}

int ranks_check_health(struct device *device, const struct world *world, struct error *err)
{
    char text[2048], *rest = text, *line, node[HOST_NAME_MAX + 1];

    if (device_health(device, text, sizeof(text), err) < 0)
        return -1;
    while ((line = strsep(&rest, "\n")) != NULL)
        if (line[0])
            log_warning("node %s, rank %lld, %s: %s", node_name(node), (long long)world->rank,
                        device->model, line);
    return 0;
}

static int check_fp8(struct device *device, const struct ranks_config *config, struct error *err)
{
    if (config->fp8 && !device_supports(device, TYPE_E4M3)) {
        error_set_code(err, ERROR_USAGE,
                       "fp8 needs a Hopper GPU (H100, H200) or a later one, and this is %s",
                       device->model);
        return error_append(err, "; drop --fp8-format");
    }
    if (config->fp8_blocks && !device_supports_blocks(device)) {
        error_set_code(
            err, ERROR_USAGE,
            "blockwise scales of fp8 need a Hopper GPU (H100, H200), and a megatron built "
            "and run with cuBLASLt of CUDA 12.9 or later; this is %s: see `megatron "
            "version`",
            device->model);
        return error_append(err, "; use --fp8-recipe delayed or tensorwise");
    }
    return 0;
}

int ranks_open(struct ranks *r, const struct ranks_config *config, const struct world *world,
               struct error *err)
{
    struct comm_options options;

    memset(r, 0, sizeof(*r));
    r->device = ranks_open_device(config, world, err);
    if (!r->device)
        return -1;
    if (!device_supports(r->device, config->type)) {
        error_set_code(err, ERROR_USAGE, "the %s device supports fp32 only", r->device->name);
        return error_append(err, "; drop --bf16 or --fp16");
    }
    if (check_fp8(r->device, config, err) < 0)
        return -1;
    options = comm_options_of(world, r->device, config->deadline);
    options.deterministic = config->deterministic;
    options.longer = "raise --distributed-timeout-minutes";
    r->comm =
        comm_open(comm_choose(options.size, strcmp(r->device->name, "cpu") != 0), &options, err);
    return r->comm ? parallel_create(&r->parallel, r->comm, &config->layout, err) : -1;
}

void ranks_close(struct ranks *r)
{
    parallel_destroy(&r->parallel);
    comm_close(r->comm);
    device_close(r->device);
    memset(r, 0, sizeof(*r));
}
