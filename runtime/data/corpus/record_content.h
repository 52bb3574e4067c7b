/* SPDX-License-Identifier: Apache-2.0 */
/* What the first bytes of a file tell about all of it. */
#ifndef MEGATRON_CORPUS_RECORD_CONTENT_H
#define MEGATRON_CORPUS_RECORD_CONTENT_H

#include "records.h"

/* Is the file that begins with 'data' what the mode expects? Returns 0 or -1. */
int record_check_content(enum record_mode mode, const char *path, const char *data, size_t size,
                         struct error *err);

/* '*site' becomes that of the segment's file: already known, or read at the start of 'data', which
 * is that of the segment, or of the file. Returns 0 or -1. */
int record_learn_site(const struct corpus_files *files, const struct segment *segment,
                      const char *data, size_t length, const struct wiki_site **site,
                      struct error *err);

#endif
