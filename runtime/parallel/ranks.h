/* From the environment of a rank to its device and its place among the others. */
#ifndef MEGATRON_RANKS_H
#define MEGATRON_RANKS_H

#include "parallel.h"
#include "world.h"

enum device_choice { DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA };

/* "cpu" or "cuda": what was chosen, else cuda on a machine that has a GPU, even where that cannot
 * be used: the CPUs never take its place unasked. */
const char *ranks_device(enum device_choice choice);

struct ranks_config {
    enum device_choice device;
    enum device_type type; /* of the weights, which the device must have */
    int64_t threads;       /* of a CPU rank; 0 or less: all cores it may use */
    int deterministic, unfused_attention, random_order;
    uint64_t seed; /* of the random order */
    double deadline;
    struct layout layout;
};

/* The device of this rank alone. On failure return NULL and say in 'err' what is missing, and how
 * to do without GPUs. */
struct device *ranks_open_device(const struct ranks_config *config, const struct world *world,
                                 struct error *err);

/* Say on stderr what would cost the night: every rank for its own device, before it takes memory
 * there. Returns -1 where the device cannot be used. */
int ranks_check_health(struct device *device, const struct world *world, struct error *err);

struct ranks {
    struct device *device;
    struct comm *comm;
    struct parallel parallel;
};

/* Open the device, meet the other ranks and make the groups. Returns 0 or -1; ranks_close in both
 * cases. */
int ranks_open(struct ranks *ranks, const struct ranks_config *config, const struct world *world,
               struct error *err);
void ranks_close(struct ranks *ranks);

#endif
