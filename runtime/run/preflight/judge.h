/* SPDX-License-Identifier: Apache-2.0 */
/* From what all ranks found and measured to verdicts. A pure function of its input.
 *
 * Speeds are compared with the job's own median over the ranks with the same kind of device, so
 * that no verdict depends on how fast the machines are; with two ranks, with the faster one. */
#ifndef MEGATRON_JUDGE_H
#define MEGATRON_JUDGE_H

#include "facts.h"
#include "findings.h"
#include "hub.h"
#include "layer.h"
#include "run/plan/machine.h"
#include "pairs.h"
#include "processor.h"

/* What a rank has measured. Plain bytes. */
struct measures {
    struct processor processor;
    struct layer_result layer;
    char trouble[ERROR_TEXT]; /* why its device could not be tested, or "" */
    int32_t sees_files;       /* the shared directory: 1 yes, 0 no, -1 not tested */
    int64_t disk_free;        /* bytes; -1: unknown */
    double disk_rate;         /* bytes per second; 0: the write failed */
    double copy_rate;         /* between GPU and host; 0: not tested */
    int64_t wrong_blocks;
    double tested_bytes; /* of GPU memory */
    double all_reduce;   /* within the node; 0: not tested */
    char comm_trouble[ERROR_TEXT];
    struct gpu_state gpu[FACTS_GPUS]; /* on the first rank of a node: after the load */
    struct counter_facts after;
    struct pair_result
        pairs[2];          /* on the first rank of a node: with its right, its left neighbor */
    double pair_reduce[2]; /* all-reduce over both; 0: not tested */
};

/* As facts_limit, for another rank's measures. */
void measures_limit(struct measures *measures);

struct job {
    int size;
    const enum hub_state *states; /* per rank, as all below */
    const char (*hosts)[64];      /* known or expected; "" if neither */
    const struct facts *facts;    /* zero for ranks that are not alive */
    const struct measures *measures;
    const double *ahead, *uncertainty; /* of the clock of the first rank of each node */
    const int *leaders;                /* first ranks of the nodes in the ring, 'nodes' of them */
    int nodes;
    int full_ring;                 /* pairs were tested */
    int kind_in_doubt;             /* the kind that was named may be wrong */
    const struct machine *machine; /* limits and counts; name "" if the kind is not known */
};

/* Add all verdicts. */
void judge(const struct job *job, struct findings *findings);

#endif
