/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: record boundaries, which depend on the mode, and checks of the first bytes of
 * a file. */
#ifndef MEGATRON_CORPUS_RECORD_PRIVATE_H
#define MEGATRON_CORPUS_RECORD_PRIVATE_H

#include "records.h"

/* Is the line white space only? */
int record_is_blank(const char *line, size_t size);

/* The number of bytes of complete records in 'data', if more data follows. */
size_t record_whole(enum record_mode mode, const char *data, size_t size);

/* How much of 'data' belongs to a record that began before it; '*through' if the record ends
 * there. */
size_t record_rest(enum record_mode mode, const char *data, size_t size, int *through);

/* Fails if the file that begins with 'data' is not in the expected format. Returns 0 or -1. */
int record_check_content(enum record_mode mode, const char *path, const char *data, size_t size,
                         struct error *err);

/* Get the site of the segment's file: known already, or parsed from 'data', the start of the
 * segment, or from the start of the file. Returns 0 or -1. */
int record_learn_site(const struct corpus_files *files, const struct segment *segment,
                      const char *data, size_t length, const struct wiki_site **site,
                      struct error *err);

#endif
