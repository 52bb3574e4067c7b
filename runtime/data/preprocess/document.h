/* SPDX-License-Identifier: Apache-2.0 */
/* Private to preprocess/: reads records and decides which are valid documents. */
#ifndef MEGATRON_PREPROCESS_DOCUMENT_H
#define MEGATRON_PREPROCESS_DOCUMENT_H

#include "part.h"
#include "data/jobs/input_plan.h"
#include "preprocess.h"
#include "data/corpus/corpus.h"
#include "data/corpus/wiki.h"

/* The parser of one thread. */
struct document_parser {
    struct jsonl *jsonl;           /* for JSON lines; otherwise NULL */
    struct wikitext *wikitext;     /* for MediaWiki dumps; otherwise NULL */
    struct wiki_document document; /* the page that was checked last */
    struct wiki_buffer plain;      /* a detokenized text */
};

/* Open a parser for the input format. Returns 0 or -1; 'parser' must be closed in both cases. */
int document_parser_open(struct document_parser *parser, const struct preprocess_config *config,
                         struct error *err);
void document_parser_close(struct document_parser *parser);
/* Free the memory that an unusually long record needed. */
void document_parser_trim(struct document_parser *parser);

/* Check a record of 'block'. Returns its fault, or FAULT_NONE, and the key that the fault concerns.
 * Without a tokenizer all texts are accepted. */
enum document_fault document_check(const struct preprocess_config *config,
                                   const struct tokenizer *tokenizer,
                                   struct document_parser *parser, const struct record_block *block,
                                   const struct record *record, size_t *key);

/* The texts under a key of the record that document_check was called for last. */
const struct jsonl_text *document_texts(struct document_parser *parser,
                                        const struct preprocess_config *config,
                                        const struct record *record, size_t key, size_t *count,
                                        struct jsonl_text *room);

/* Read a chunk again up to its document number 'documents' (counted from 1), and count the faults
 * up to and including it. 'last' becomes the position of that document, or of the end of its page.
 * Returns 0 or -1. */
int document_count_faults(const struct preprocess_config *config, const struct input_plan *plan,
                          const struct tokenizer *tokenizer, size_t chunk, int64_t documents,
                          int64_t *faults, struct part_fault *last, struct error *err);

/* Like document_count_faults, for one block in memory. */
int document_count_block(const struct preprocess_config *config, const struct tokenizer *tokenizer,
                         const struct record_block *block, int64_t documents, int64_t *faults,
                         struct part_fault *last, struct error *err);

/* Truncate a list in input order to the faults before 'last'. */
void document_drop_faults(struct part_fault *listed, int64_t *count, const struct part_fault *last);

#endif
