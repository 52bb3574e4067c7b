/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a MediaWiki dump to JSON lines on a pipe or a terminal, with the threads of one process.
 * The pages are in the order of the dump, and the bytes do not depend on the number of threads.
 * Each thread converts a piece of a file; output that is ready early waits in memory.
 * (curate/pages.h writes to a file, with all ranks of a step.) */
#ifndef MEGATRON_CORPUS_EXTRACT_H
#define MEGATRON_CORPUS_EXTRACT_H

#include "lib/error.h"
#include "files.h"
#include "wiki_lines.h"
#include "wikitext.h"

struct extract_config {
    struct corpus_files *files;
    struct wiki_options wiki;
    int threads; /* 0: the CPUs that this process may use */
    int strict;  /* stop at the first broken page */
    int64_t max_page;
};

/* Write the pages to 'fd', called 'name' in messages. The first broken pages, and
 * every broken file, are reported individually through log.h. Returns 0 or -1. */
int extract(const struct extract_config *config, int fd, const char *name,
            struct wiki_counts *counts, struct error *err);

#endif
