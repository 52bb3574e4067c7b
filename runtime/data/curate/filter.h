/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron data filter`: keep documents that pass the quality rules and are in a wanted language;
 * mask e-mail and IP addresses. */
#ifndef MEGATRON_CURATE_FILTER_H
#define MEGATRON_CURATE_FILTER_H

#include "data/jobs/jobs.h"
#include "pii.h"
#include "rules.h"

struct filter_config {
    struct jobs_config base;
    struct rules rules;
    const char *model; /* a fastText model; NULL: do not detect languages */
    const char *const *languages;
    size_t language_count; /* 0: any */
    int add_language;
    struct pii pii;
};

int filter_run(struct filter_config *config, struct error *err);

#endif
