/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron data extract` to a file: converts the pages of MediaWiki dumps to JSON lines. */
#ifndef MEGATRON_CURATE_PAGES_H
#define MEGATRON_CURATE_PAGES_H

#include "data/jobs/jobs.h"
#include "data/corpus/wiki.h"

struct pages_config {
    struct jobs_config base;
    struct wiki_options wiki;
};

int pages_run(struct pages_config *config, struct error *err);

#endif
