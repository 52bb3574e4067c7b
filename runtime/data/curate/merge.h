/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron data merge`: several .bin and .idx pairs -> one, byte for byte as Megatron's
 * merge_datasets.py, in pieces that all ranks copy. */
#ifndef MEGATRON_CURATE_MERGE_H
#define MEGATRON_CURATE_MERGE_H

#include "curate.h"

struct merge_config {
    struct curate_config base; /* without inputs; its output is the prefix */
    const char *const *prefixes;
    size_t count;
};

int merge_run(struct merge_config *config, struct error *err);

#endif
