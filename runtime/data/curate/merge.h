/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron data merge`: concatenate several .bin and .idx pairs, byte for byte like Megatron's
 * merge_datasets.py. All ranks copy pieces. */
#ifndef MEGATRON_CURATE_MERGE_H
#define MEGATRON_CURATE_MERGE_H

#include "data/jobs/jobs.h"

struct merge_config {
    struct jobs_config base; /* has no inputs; 'output' is the prefix */
    const char *const *prefixes;
    size_t count;
};

int merge_run(struct merge_config *config, struct error *err);

#endif
