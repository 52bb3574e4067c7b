/* SPDX-License-Identifier: Apache-2.0 */
/* From what all ranks found and measured to verdicts. A pure function of its input.
 *
 * Speeds are compared with the job's own median over the ranks with the same kind of device, so
 * that no verdict depends on how fast the machines are; with two ranks, with the faster one. */
#ifndef MEGATRON_JUDGE_H
#define MEGATRON_JUDGE_H

#include <stdbool.h>

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

/* Shared by the parts of judge(). */

/* Does rank 'r' take part until the end? */
static inline bool judged(const struct job *job, int r)
{
    return job->states[r] == HUB_ALIVE;
}

/* Add a verdict about a rank's node; 'value' is a format. */
__attribute__((format(printf, 7, 8))) void judge_say(struct findings *findings, const char *host,
                                                     const char *check, enum verdict verdict,
                                                     const char *expected, const char *advice,
                                                     const char *value, ...);

/* How bad a value is by two limits, of which 0 is none. */
static inline enum verdict judge_grade(double value, double warn, double fail)
{
    return fail > 0 && value > fail   ? VERDICT_FAIL
           : warn > 0 && value > warn ? VERDICT_WARN
                                      : VERDICT_OK;
}

/* The value that half of the numbers are not above; the upper one of the two in the middle. Sorts
 * them. */
double judge_median(double *numbers, size_t count);

/* The parts of judge(). */
void judge_nodes(const struct job *job, struct findings *findings);
void judge_gpus(const struct job *job, struct findings *findings);
void judge_speed(const struct job *job, struct findings *findings);
void judge_network(const struct job *job, struct findings *findings);

#endif
