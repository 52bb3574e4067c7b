/* SPDX-License-Identifier: Apache-2.0 */
/* Check a layout against tasks, GPUs and model; errors contain the remedy. */
#ifndef MEGATRON_CHECKS_H
#define MEGATRON_CHECKS_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
#include "request.h"
#include "settings.h"

/* What is known about a job or step; -1 if unknown. */
struct counts {
    int64_t tasks;
    int64_t nodes;
    int64_t tasks_per_node;
    int64_t gpus_per_node; /* 0: none asked for */
    /* A het job: the same for the nodes of each component, since they may differ. Otherwise 0. */
    size_t components;
    struct {
        int64_t tasks_per_node, gpus_per_node;
    } component[REQUEST_COMPONENTS];
};

/* CHECK_NOTHING: no model is given, so there is nothing to check. */
enum check_status { CHECK_OK, CHECK_NOTHING, CHECK_UNKNOWN, CHECK_FAILED };

/* Run check number 'index' on resolved settings. Sets '*what' to the subject of the check, and
 * settings->layout.dp if the number of tasks is known. With CHECK_FAILED, 'err' has the reason.
 * Returns -1 after the last check. */
int check_one(size_t index, struct settings *settings, const struct counts *counts,
              const char **what, struct error *err);

/* Run all checks up to the first that fails. Returns 0 or -1. */
int check_counts(struct settings *settings, const struct counts *counts, struct error *err);

#endif
