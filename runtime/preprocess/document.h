/* SPDX-License-Identifier: Apache-2.0 */
/* For files of preprocess/ only: which records are valid documents. */
#ifndef MEGATRON_PREPROCESS_DOCUMENT_H
#define MEGATRON_PREPROCESS_DOCUMENT_H

#include "part.h"
#include "plan.h"
#include "preprocess.h"
#include "records.h"

/* The fault of a record, if any, and the key it concerns. 'jsonl' contains its texts afterwards;
 * NULL if records are plain text. */
enum document_fault document_check(const struct preprocess_config *config,
                                   const struct tokenizer *tokenizer, struct jsonl *jsonl,
                                   const struct record *record, size_t *key);

/* Read a chunk again up to its document number 'documents', counted from 1, and count the faults
 * before it. 'last' becomes the position of that document. Returns 0 or -1. */
int document_count_faults(const struct preprocess_config *config, const struct plan *plan,
                          const struct tokenizer *tokenizer, size_t chunk, int64_t documents,
                          int64_t *faults, struct part_fault *last, struct error *err);

/* The same for one block in memory. */
int document_count_block(const struct preprocess_config *config, const struct tokenizer *tokenizer,
                         const struct record_block *block, int64_t documents, int64_t *faults,
                         struct part_fault *last, struct error *err);

/* Of a list in input order, keep only what comes before 'last'. */
void document_drop_faults(struct part_fault *listed, int64_t *count, const struct part_fault *last);

#endif
