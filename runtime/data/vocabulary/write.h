/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a vocabulary: tokenizer.json for all types, and those of the older tools. */
#ifndef MEGATRON_VOCABULARY_WRITE_H
#define MEGATRON_VOCABULARY_WRITE_H

#include "bpe_learn.h"
#include "learn.h"
#include "unigram_learn.h"

#define WORDPIECE_PREFIX "##"

/* Their names, NULL after the last. */
const char *const *write_names(enum learn_type type);

/* Ids of a Unigram vocabulary that are not pieces: special tokens and bytes. */
int64_t write_unigram_fixed(const struct learn_config *config);

/* Serialize what was learned as the result of a job. */
void write_put_bpe(struct bytes *result, const struct bpe_learned *learned);
void write_put_unigram(struct bytes *result, const struct unigram_learned *learned);

/* Write all files from such a result; '*tokens' is the size of the vocabulary. */
int write_files(const struct learn_config *config, struct bytes *learned, int64_t *tokens,
                struct error *err);

/* --- Within write*.c -------------------------------------------------------------------------- */

/* A text that grows: lines.h of the curate folder, with numbers. */
struct line_buffer;
void write_format(struct line_buffer *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Give 'out' the name DIRECTORY/NAME, atomically. Frees it. */
int write_file(const struct learn_config *config, const char *name, struct line_buffer *out,
               struct error *err);

/* The beginning of a tokenizer.json, up to its special tokens; their ids count from 0. */
void write_head(struct line_buffer *out, const char *const *specials, size_t count);

int write_bpe_files(const struct learn_config *config, const struct bpe_learned *learned,
                    struct error *err);
int write_unigram_files(const struct learn_config *config, const struct unigram_learned *learned,
                        struct error *err);

#endif
