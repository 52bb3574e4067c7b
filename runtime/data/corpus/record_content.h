/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: checks of the first bytes of a file. */
#ifndef MEGATRON_CORPUS_RECORD_CONTENT_H
#define MEGATRON_CORPUS_RECORD_CONTENT_H

#include "records.h"

/* Fails if the file that begins with 'data' is not in the expected format. Returns 0 or -1. */
int record_check_content(enum record_mode mode, const char *path, const char *data, size_t size,
                         struct error *err);

/* Get the site of the segment's file: known already, or parsed from 'data', the start of the
 * segment, or from the start of the file. Returns 0 or -1. */
int record_learn_site(const struct corpus_files *files, const struct segment *segment,
                      const char *data, size_t length, const struct wiki_site **site,
                      struct error *err);

#endif
