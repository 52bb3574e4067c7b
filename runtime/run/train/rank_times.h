/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank delays the others: every so many steps the logging rank collects a few numbers of
 * each rank (time of its forward and backward passes, power, clock, reasons for lower clocks, Xid
 * errors, TCP retransmissions of its node), compares them and names stragglers. The numbers are
 * read between two steps, by a log line that waits for the device. */
#ifndef MEGATRON_RANK_TIMES_H
#define MEGATRON_RANK_TIMES_H

#include <stdint.h>
#include "base/core/nvml_gpus.h"
#include "outputs.h"
#include "engine/parallel/parallel.h"
#include "base/core/world.h"

/* What does not change during a run. */
struct rank_place {
    char host[64], cpus[64], gpus[32], pci[48], nics[96];
    int32_t stage; /* of the pipeline: only ranks of one stage do the same work */
    int32_t gpu;   /* computes on a GPU */
};

/* What is compared. */
struct rank_sample {
    float milliseconds;        /* of the passes of a step */
    float watts, mhz, celsius; /* -1: unknown */
    uint32_t slow_reasons;     /* see nvml_gpus.h */
    uint32_t retransmitted;    /* TCP segments of the node since the last sample */
    int32_t xid;               /* the last error of the GPU in the kernel log; 0: none */
};

struct rank_times {
    int64_t interval, next; /* steps between comparisons; the iteration of the next one */
    int rank, size, local_rank;
    struct nvml_gpus *nvml; /* NULL: there is none, or this rank has no GPU */
    int index;              /* of this rank's GPU in NVML; -1: unknown */
    uint64_t retransmitted; /* so far, on this node */
    int kernel_log;         /* descriptor; -1: not readable, or this rank has no GPU */
    char bus[24];           /* of this rank's GPU; "": unknown */
    int32_t xid;            /* the last one */
    int64_t compared;       /* number of comparisons so far */
    /* on the logging rank */
    struct rank_place *places;
    struct rank_sample *samples;
    unsigned char *slow; /* per rank: how many comparisons in a row it was slow */
};

/* Collective. 'interval' 0: do nothing, now and later. Returns 0 or -1; close in both cases. */
int rank_times_open(struct rank_times *times, const struct parallel *parallel,
                    const struct world *world, int64_t first, int64_t interval,
                    struct outputs *outputs, struct error *err);
void rank_times_close(struct rank_times *times);

/* Is a comparison due after 'iteration'? The same on all ranks. */
int rank_times_due(const struct rank_times *times, int64_t iteration);

/* Compare the passes of the last step, which took 'seconds' here. Collective, when due. Stragglers
 * are reported as warnings and, with the times of all ranks, to the metrics file. */
int rank_times_compare(struct rank_times *times, const struct parallel *parallel, int64_t iteration,
                       double seconds, struct outputs *outputs, struct error *err);

/* Count in 'slow' the comparisons in a row in which each rank was slower than the median of its
 * stage by more than the limit: 6 % on GPUs, 50 % on CPUs. 'medians' gets those of the ranks'
 * stages. */
void rank_times_mark(const struct rank_place *places, const struct rank_sample *samples, int size,
                     unsigned char *slow, double *medians);

/* The likely cause, in words. */
const char *rank_times_cause(const struct rank_sample *sample, const struct rank_sample *samples,
                             int size, char *text, size_t length);

#endif
