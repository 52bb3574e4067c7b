/* SPDX-License-Identifier: Apache-2.0 */
/* The hashes of documents, partitioned into buckets (sections.h): equal hashes meet in the same
 * bucket. */
#ifndef MEGATRON_CURATE_SPREAD_H
#define MEGATRON_CURATE_SPREAD_H

#include "sections.h"

enum { SPREAD_RUN = 4 << 20 }; /* entries of a run */

struct spread_entry {
    uint64_t hash;
    uint32_t check; /* further bits of the hash */
    uint32_t document;
};

struct spread;

/* Create the file "hashes-N" of the job. */
struct spread *spread_create(struct job *job, size_t buckets, struct error *err);
int spread_add(struct spread *spread, const struct spread_entry *entry, struct error *err);
int spread_finish(struct spread *spread, struct error *err);
void spread_abandon(struct spread *spread);

#endif
