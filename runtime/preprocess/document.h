/* Inside of preprocess/: which records are documents. */
#ifndef MEGATRON_PREPROCESS_DOCUMENT_H
#define MEGATRON_PREPROCESS_DOCUMENT_H

#include "part.h"
#include "plan.h"
#include "preprocess.h"
#include "records.h"

/* What is wrong with a record, and with which key. 'jsonl' holds its texts afterwards; NULL where
 * records are plain text. */
enum document_fault document_check(const struct preprocess_config *config,
                                   const struct tokenizer *tokenizer, struct jsonl *jsonl,
                                   const struct record *record, size_t *key);

/* Read a chunk again up to its document number 'documents', counted from 1, and count what is
 * broken before that. 'last' becomes the place of that document. Returns 0 or -1. */
int document_count_faults(const struct preprocess_config *config, const struct plan *plan,
                          const struct tokenizer *tokenizer, size_t chunk, int64_t documents,
                          int64_t *faults, struct part_fault *last, struct error *err);

/* The same for one block that has been read. */
int document_count_block(const struct preprocess_config *config, const struct tokenizer *tokenizer,
                         const struct record_block *block, int64_t documents, int64_t *faults,
                         struct part_fault *last, struct error *err);

/* Of a list in the order of the input, keep only what comes before 'last'. */
void document_drop_faults(struct part_fault *listed, int64_t *count, const struct part_fault *last);

#endif
