/* SPDX-License-Identifier: Apache-2.0 */
/* What only some runs have: records about ranks, power, placement, preflight checks and the plan
 * (see report_records.h). */
#ifndef MEGATRON_EXTRAS_H
#define MEGATRON_EXTRAS_H

#include <stddef.h>
#include <stdint.h>
#include "base/core/json.h"
#include "base/core/list.h"

enum { MOST_RANKS = 65536, MOST_CHECKS = 16384, MOST_PLACES = 65536, MOST_POWER = 1000000 };

struct rank_time {
    char *host;
    double total; /* of its mean step times in ms */
    int64_t count;
};

struct power {
    int64_t iteration;
    float watts[3], mhz[3], celsius[3]; /* min, mean, max; NAN: not known */
};

struct place {
    char *host, *task, *gpus, *nics, *cpus;
    int64_t rank; /* -1: not known */
};

struct check {
    char *host, *name, *verdict, *value, *expected, *advice;
};

struct extras {
    LIST(struct rank_time) ranks;
    LIST(struct power) power;
    LIST(struct place) places;
    LIST(struct check) checks;
    char *plan_layout; /* NULL: there is no plan */
    double plan_step, plan_tflops, plan_tokens, plan_memory;
};

/* Take a record of kind 'kind' whose members are in 'root'; other kinds are ignored. */
void extras_take(struct extras *extras, const char *kind, struct json_value root);
void extras_clear(struct extras *extras);

#endif
