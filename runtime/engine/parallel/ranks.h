/* SPDX-License-Identifier: Apache-2.0 */
/* Opens what a rank needs before any work: its device, the connection to the other ranks, and the
 * parallel groups.
 *
 *     struct ranks ranks;
 *     if (ranks_open(&ranks, &config, &world, &err) == 0)
 *         train(ranks.device, &ranks.parallel);
 *     ranks_close(&ranks);
 */
#ifndef MEGATRON_RANKS_H
#define MEGATRON_RANKS_H

#include "parallel.h"
#include "base/core/world.h"

enum device_choice { DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA };

/* GPUs that Slurm allocated to this step on this node; 0 if none or without Slurm. */
int ranks_allocated_gpus(void);

/* "cpu" or "cuda": what was chosen; otherwise cuda on a machine with an NVIDIA GPU and where Slurm
 * allocated GPUs, even if they cannot be used: the CPUs never replace them silently. */
const char *ranks_device(enum device_choice choice);

struct ranks_config {
    enum device_choice device;
    enum device_type type; /* of the weights; the device must support it */
    int fp8;               /* it must support fp8, too */
    int fp8_blocks;        /* with blockwise scales */
    int64_t threads;       /* of a CPU rank; 0 or less: all cores it may use */
    int deterministic, untuned, unfused_attention, random_order;
    uint64_t seed; /* of the random order */
    double deadline;
    struct layout layout;
};

/* Open the device of this rank alone. On failure return NULL; 'err' says what is missing and how to
 * compute on CPUs instead. Caller must close. */
struct device *ranks_open_device(const struct ranks_config *config, const struct world *world,
                                 struct error *err);

/* Warn about GPU conditions that would slow down or end a long run (throttling, ECC errors). Every
 * rank checks its own device, before it allocates memory there. Returns -1 if the device cannot be
 * used. */
int ranks_check_health(struct device *device, const struct world *world, struct error *err);

struct ranks {
    struct device *device;
    struct comm *comm;
    struct parallel parallel;
};

/* Open the device, connect to the other ranks and create the parallel groups. Returns 0 or -1;
 * ranks_close in both cases. */
int ranks_open(struct ranks *ranks, const struct ranks_config *config, const struct world *world,
               struct error *err);
void ranks_close(struct ranks *ranks);

#endif
