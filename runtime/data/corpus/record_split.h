/* SPDX-License-Identifier: Apache-2.0 */
/* Where records begin and end in bytes: what the reader of records.h asks about each mode. */
#ifndef MEGATRON_CORPUS_RECORD_SPLIT_H
#define MEGATRON_CORPUS_RECORD_SPLIT_H

#include "records.h"

/* Is it white space only? */
int record_is_blank(const char *line, size_t size);

/* The number of bytes of 'data' that are whole records, if more data follows. */
size_t record_whole(enum record_mode mode, const char *data, size_t size);

/* How much of 'data' still belongs to a record that began before it; '*through' if it ends there.
 */
size_t record_rest(enum record_mode mode, const char *data, size_t size, int *through);

#endif
