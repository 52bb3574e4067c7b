/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: record boundaries, which depend on the mode. */
#ifndef MEGATRON_CORPUS_RECORD_SPLIT_H
#define MEGATRON_CORPUS_RECORD_SPLIT_H

#include "records.h"

/* Is the line white space only? */
int record_is_blank(const char *line, size_t size);

/* The number of bytes of complete records in 'data', if more data follows. */
size_t record_whole(enum record_mode mode, const char *data, size_t size);

/* How much of 'data' belongs to a record that began before it; '*through' if the record ends
 * there. */
size_t record_rest(enum record_mode mode, const char *data, size_t size, int *through);

#endif
