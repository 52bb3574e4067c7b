/* SPDX-License-Identifier: Apache-2.0 */
/* Reads corpora: input files, compressed or not, cut into ranges that many threads read.
 *
 *     struct corpus_files files = {0};
 *     struct segment whole = {0, 0, SOURCE_TO_END};
 *     struct record_block block = {0};
 *     struct record_reader *reader;
 *
 *     corpus_files_find(&files, inputs, input_count, NULL, &err);
 *     reader = record_reader_create(&files, &whole, 1, RECORD_JSON, block_size, max_record);
 *     while (record_reader_next(reader, &block, &err) > 0) {
 *         struct record_cursor cursor = {0, 0};
 *         struct record record;
 *
 *         while (record_next(RECORD_JSON, &block, &cursor, &record))
 *             if (jsonl_parse(jsonl, record.data, record.size) == FAULT_NONE)
 *                 use(jsonl_texts(jsonl, 0, &count));
 *     }
 */
#ifndef MEGATRON_CORPUS_H
#define MEGATRON_CORPUS_H

#include "files.h"
#include "jsonl.h"
#include "records.h"
#include "source.h"
#include "wiki_buffer.h"

/* Write the text to 'out', which is cleared first. */
void detokenize(const char *data, size_t size, struct wiki_buffer *out);

#endif
