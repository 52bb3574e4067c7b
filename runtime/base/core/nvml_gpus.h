/* SPDX-License-Identifier: Apache-2.0 */
/* The state of all GPUs of a node as the driver's management library (NVML) reports it, without a
 * CUDA context: errors, clocks and why they are lowered, PCIe, NVLink, power. The library is opened
 * on demand. */
#ifndef MEGATRON_NVML_GPUS_H
#define MEGATRON_NVML_GPUS_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"

/* Numbers that the driver does not report are -1, and 0 for slow_reasons. */
struct gpu_state {
    char bus[24];                        /* "0000:53:00.0" */
    int64_t uncorrected;                 /* ECC errors since the driver was loaded */
    int32_t rows_pending, rows_spent;    /* rows to remap at a reset; no spare rows are left */
    uint64_t slow_reasons;               /* reasons for lower clocks, all that were seen */
    int32_t width, most_width;           /* PCIe lanes */
    int32_t generation, most_generation; /* PCIe */
    int32_t links_up, links_down;        /* NVLinks */
    int64_t link_errors;                 /* replays and recoveries of all links */
    int32_t megahertz, most_megahertz;   /* of the multiprocessors */
    double watts, celsius;
};

/* Reasons that mean a fault; idle clocks and the power limit are normal. */
enum { SLOW_HARDWARE = 0x8, SLOW_SOFT_HEAT = 0x20, SLOW_HARD_HEAT = 0x40, SLOW_POWER_BRAKE = 0x80 };

/* Words for them, such as "heat (hardware limit)"; "" if there is none. */
const char *gpu_slow_reason(uint64_t reasons);

struct nvml_gpus;

/* Open the library. Returns NULL with 'err' set; on a node without the driver that is normal.
 * Caller must close. */
struct nvml_gpus *nvml_gpus_open(struct error *err);
void nvml_gpus_close(struct nvml_gpus *gpus);

/* The driver's version, "" if it is not reported. */
const char *nvml_gpus_driver(const struct nvml_gpus *gpus);

int nvml_gpus_count(const struct nvml_gpus *gpus);

/* Read everything about GPU 'index' (in NVML's order, that of PCI addresses). Returns -1 if it has
 * been lost. */
int nvml_gpus_read(struct nvml_gpus *gpus, int index, struct gpu_state *state);

/* Update only what changes under load: clocks, their reasons (added to those seen before), PCIe
 * (the highest seen), power. */
void nvml_gpus_sample(struct nvml_gpus *gpus, int index, struct gpu_state *state);

#endif
