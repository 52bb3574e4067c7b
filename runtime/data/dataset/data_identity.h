/* SPDX-License-Identifier: Apache-2.0 */
/* Which tokenizer made a corpus, as a JSON object in PREFIX.tokenizer, beside PREFIX.bin and
 * PREFIX.idx:
 *
 *     {"format": 1, "tokenizer": "GPT2BPETokenizer", "vocab_size": 50257,
 *      "texts": "b6f2a9d9f0ab1c07", "own_texts": "b6f2a9d9f0ab1c07", "eod_id": 50256,
 *      "append_eod": true, "bin_bytes": 81920, "idx_bytes": 4130}
 *
 * "texts" and "own_texts" are hashes of ids and their texts, of all and of those before added ones
 * (tokenizer.h), "eod_id" is null if the tokenizer has no such token, and the sizes show whether
 * the file belongs to this pair. Members that a reader does not know are ignored. Megatron-LM
 * ignores the file; with a second dot in its name, merge_datasets.py would look for a pair of that
 * name. */
#ifndef MEGATRON_DATA_IDENTITY_H
#define MEGATRON_DATA_IDENTITY_H

#include "indexed.h"
#include "data/tokenizer/tokenizer.h"

#define DATA_IDENTITY_ENDING "tokenizer"
enum { DATA_IDENTITY_TEXT = 512, DATA_IDENTITY_WORDS = 96 };

struct data_identity {
    struct tokenizer_identity tokenizer;
    int append_eod; /* the end-of-document token was appended to all documents */
};

/* The contents of the file for a pair of these sizes. Returns the number of bytes. */
size_t data_identity_text(const struct data_identity *identity, int64_t bin_bytes,
                          int64_t idx_bytes, char text[DATA_IDENTITY_TEXT]);

/* Read the file of a corpus. Returns 1; 0 if there is none, or this build cannot read JSON; -1 if
 * it cannot be read, or is about other data. */
int data_identity_read(const struct indexed *corpus, struct data_identity *identity,
                       struct error *err);

/* Is the file at 'path', if there is one, a file of this kind, which may be replaced? Returns 1 or
 * 0. */
int data_identity_may_replace(const char *path);

/* May ids of 'a' be read as ids of 'b'? 1 also if that cannot be known, as for a NullTokenizer. */
int data_identity_matches(const struct tokenizer_identity *a, const struct tokenizer_identity *b);

/* "Llama2Tokenizer (32000 tokens, hash 5d1e0c6f8e0a9b3c)". */
void data_identity_words(const struct tokenizer_identity *identity,
                         char words[DATA_IDENTITY_WORDS]);

#endif
