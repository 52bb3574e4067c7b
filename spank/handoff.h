/* SPDX-License-Identifier: Apache-2.0 */
/* The handoff: a message from the plugin in srun to the plugin in the tasks, as text in one
 * environment variable (which reaches the nodes even with --export=NONE). The tasks remove the
 * variable. */
#ifndef MEGATRON_HANDOFF_H
#define MEGATRON_HANDOFF_H

#include <stddef.h>
#include <stdint.h>

#include "lib/token.h"

/* The client's half is in CONTRACT_MARK_CLIENT, set when the options are known. */
#define HANDOFF_STEP \
    "SLURM_SPANK_MEGATRON_STEP" /* set when the step is known; for a het job, only its start */

enum { HANDOFF_TEXT = 1024 };

struct handoff {
    char version[32]; /* version of the plugin in srun; "" if there is none */
    char slurm[32];   /* the Slurm version that it was built for */
    int64_t contract;
    int64_t overrides;       /* enum override */
    char home[256];          /* the user's HOME, as srun has it; "" for steps without an image */
    char secret[TOKEN_TEXT]; /* of the step, in hexadecimal; "" if there is none */
    int64_t mark;            /* a number unique to this srun; 0 if there is none */
    char master[256];        /* address of the node of task 0; "" if unknown */
    char first[256];         /* its name */
    int64_t port;            /* 0 if not chosen */
    int64_t start;           /* of the job, seconds since 1970; 0 if unknown */
    int64_t end;             /* of the job, seconds since 1970; 0 if unknown */
    int64_t refused;         /* 1: srun has reported an error; the tasks just fail */
};

/* Write the client's or the step's half. */
enum handoff_half { HANDOFF_CLIENT, HANDOFF_OF_STEP };
void handoff_format(const struct handoff *handoff, enum handoff_half half,
                    char buffer[HANDOFF_TEXT]);

/* Read either half into 'handoff'; fields that the text does not mention keep their values. Never
 * fails: unknown words are skipped, since another version may have written them. */
void handoff_parse(struct handoff *handoff, const char *text);

#endif
