/* SPDX-License-Identifier: Apache-2.0 */
/* Private to preprocess/: which records are valid documents. */
#ifndef MEGATRON_PREPROCESS_DOCUMENT_H
#define MEGATRON_PREPROCESS_DOCUMENT_H

#include "part.h"
#include "input_plan.h"
#include "preprocess.h"
#include "data/corpus/records.h"
#include "data/corpus/wikitext.h"

/* What one thread reads records with. */
struct document_parser {
    struct jsonl *jsonl;           /* of JSON lines, else NULL */
    struct wikitext *wikitext;     /* of a MediaWiki dump, else NULL */
    struct wiki_document document; /* the page checked last */
    struct wiki_buffer plain;      /* a text that was detokenized */
};

/* Make what the mode needs. Returns 0 or -1; 'parser' must be closed in both cases. */
int document_parser_open(struct document_parser *parser, const struct preprocess_config *config,
                         struct error *err);
void document_parser_close(struct document_parser *parser);
/* Free the memory that an unusually long record needed. */
void document_parser_trim(struct document_parser *parser);

/* What is wrong with a record of 'block', and with which key. Without a tokenizer, any text will
 * do. */
enum document_fault document_check(const struct preprocess_config *config,
                                   const struct tokenizer *tokenizer,
                                   struct document_parser *parser, const struct record_block *block,
                                   const struct record *record, size_t *key);

/* The texts under a key of the record that was checked last. */
const struct jsonl_text *document_texts(struct document_parser *parser,
                                        const struct preprocess_config *config,
                                        const struct record *record, size_t key, size_t *count,
                                        struct jsonl_text *room);

/* Read a chunk again up to its document number 'documents', counted from 1, and count the faults
 * before it, and in it. 'last' becomes the position of that document, or of the end of that page.
 * Returns 0 or -1. */
int document_count_faults(const struct preprocess_config *config, const struct input_plan *plan,
                          const struct tokenizer *tokenizer, size_t chunk, int64_t documents,
                          int64_t *faults, struct part_fault *last, struct error *err);

/* The same for one block in memory. */
int document_count_block(const struct preprocess_config *config, const struct tokenizer *tokenizer,
                         const struct record_block *block, int64_t documents, int64_t *faults,
                         struct part_fault *last, struct error *err);

/* Of a list in input order, keep only what comes before 'last'. */
void document_drop_faults(struct part_fault *listed, int64_t *count, const struct part_fault *last);

#endif
