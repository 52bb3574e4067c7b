/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the readers of a tokenizer.json; private to huggingface*.c. */
#ifndef MEGATRON_HUGGINGFACE_H
#define MEGATRON_HUGGINGFACE_H

#include "tokenizer_private.h"
#include "lib/file.h"
#include "base/core/json.h"

#define HUGGINGFACE_FILE_LIMIT (UINT64_C(1) << 30)
#define SPACE_MARK             "\xE2\x96\x81" /* U+2581 */

/* A tokenizer.json as far as it has been read. */
struct pipeline {
    struct tokenizer *tokenizer;
    char path[4096];
    struct file_bytes text;           /* of the file */
    int byte_level;                   /* there was a ByteLevel component */
    int normalizes;                   /* there was a normalizer */
    int split_found;                  /* the words are cut by tokenizer->split */
    int marks_spaces;                 /* spaces become U+2581 */
    int metaspace;                    /* there was a Metaspace component */
    int words;                        /* there was a WhitespaceSplit component */
    int bert;                         /* there was a BertPreTokenizer component */
    int byte_fallback;                /* of the model */
    int64_t model_tokens, last_added; /* entries of the vocabulary; the largest id added to them */
};

/* A boolean member, or 'otherwise' if it is missing. */
static inline int flag_is(struct json_value object, const char *name, int otherwise)
{
    struct json_value member;
    int flag;

    return json_member(object, name, &member) == 0 && json_bool(member, &flag) == 0 ? flag
                                                                                    : otherwise;
}

typedef int component_reader(struct pipeline *pipeline, struct json_value component,
                             struct error *err);

/* Returns 1 when this was a sequence of components, and they were read; 0 for a single one; -1. */
int huggingface_read_sequence(struct pipeline *pipeline, struct json_value component,
                              const char *name, component_reader *read, struct error *err);
int huggingface_read_normalizer(struct pipeline *pipeline, struct json_value component,
                                struct error *err);

/* Is a member this text? */
int huggingface_text_is(struct json_value object, const char *name, const char *wanted);

/* Report an unsupported component: its name and 'what' about it. Returns -1. */
int huggingface_refuse(const struct pipeline *pipeline, const char *part,
                       struct json_value component, const char *what, struct error *err);
/* Report that a pattern of 'part' failed to compile: as unsupported if 'why' says so, else 'why'
 * itself. */
int huggingface_refuse_pattern(const struct pipeline *pipeline, const char *part,
                               const struct error *why, struct error *err);

/* Each reads one part of the file, in this order, and returns 0, or -1 with 'err' set. */
int huggingface_read_components(struct pipeline *pipeline, struct json_value root,
                                struct error *err);
int huggingface_read_model(struct pipeline *pipeline, struct json_value root, struct error *err);
int huggingface_read_added_tokens(struct pipeline *pipeline, struct json_value root,
                                  struct error *err);

/* Look up the ids of the tokens that begin and end a sequence; -1 if there are none. */
void huggingface_find_ends(struct pipeline *pipeline);

/* The vocabulary's form of a token as written: 'bytes' has room for 'length'. */
enum vocabulary_kind huggingface_token_entry(const struct pipeline *pipeline, const char *text,
                                             size_t length, uint8_t *bytes, size_t *count);

/* Enter the tokens of a model's "vocab", an object of texts and ids. */
int huggingface_read_vocabulary(struct pipeline *pipeline, struct json_value model,
                                struct error *err);

/* With byte_fallback, every byte needs a token. */
int huggingface_check_bytes(const struct pipeline *pipeline, struct error *err);

/* The models that are not BPE. */
int huggingface_read_wordpiece(struct pipeline *pipeline, struct json_value model,
                               struct error *err);
int huggingface_read_unigram(struct pipeline *pipeline, struct json_value model, struct error *err);
/* The first 'count' scores of the model. Returns -1 if they are not where they should be. */
int huggingface_read_scores(const struct pipeline *pipeline, double *scores, size_t count);
int huggingface_enter_token(struct pipeline *pipeline, const char *text, size_t length, int64_t id,
                            struct error *err);

#endif
