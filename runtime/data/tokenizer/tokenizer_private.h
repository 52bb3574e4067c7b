/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a tokenizer; private to this folder. */
#ifndef MEGATRON_TOKENIZER_PRIVATE_H
#define MEGATRON_TOKENIZER_PRIVATE_H

#include "tokenizer.h"
#include "bpe.h"
#include "pretokenizer.h"
#include "fairseq.h"
#include "normalize.h"
#include "specials.h"
#include "template.h"
#include "unigram.h"
#include "vocabulary.h"
#include "wordpiece.h"

/* How decoded ids become text. */
enum decode_rule {
    DECODE_BYTES,         /* texts one after the other */
    DECODE_SENTENCEPIECE, /* ... without control pieces and the space prepended to the text */
    DECODE_NUMBERS,       /* NullTokenizer */
    DECODE_WORDPIECE,     /* words with a space between them, ## without */
};

/* How the ids of a word are found. */
enum model_kind { MODEL_BPE, MODEL_WORDPIECE, MODEL_UNIGRAM, MODEL_WORDS };

struct tokenizer {
    struct tokenizer_config config;
    struct vocabulary vocabulary;
    enum model_kind model;
    struct bpe bpe;
    struct wordpiece wordpiece;
    struct unigram unigram;
    struct split_options split;
    struct steps steps; /* SPLIT_STEPS */
    struct rewrites
        rewrites; /* normalizers of a tokenizer.json, before 'late_specials' are found */
    struct specials specials;      /* found in texts before anything else */
    struct specials late_specials; /* found between those */
    struct specials kept;          /* found in normalized texts: user-defined pieces */
    struct normalizer normalizer;
    char *
        unknown_text; /* what an unknown character is decoded to; NULL: SentencePiece's usual one */
    uint8_t *cuts;    /* by two bytes: 1 if they are adjacent in no token */
    enum decode_rule decode;
    int cut_spaces;              /* a space always begins a word */
    int prefix_space;            /* ByteLevel's add_prefix_space */
    int merge_unknown;           /* adjacent unknown characters become one id */
    struct around before, after; /* of each text */
    int64_t vocab_size, eod, bos, eos;
    struct fairseq_dict *dict; /* FairseqWords */
    int64_t *map;              /* FairseqBPE: from GPT-2's ids; -1 where there is none */
    size_t map_count;
    int64_t written; /* ids that count for id_size; 0: vocab_size */
    size_t id_size;
};

/* Loaders: fill a zeroed tokenizer up to model_finish. Errors name file and place. */
int load_bert(struct tokenizer *tokenizer, struct error *err);
int load_fairseq_bpe(struct tokenizer *tokenizer, struct error *err);
int load_fairseq_words(struct tokenizer *tokenizer, struct error *err);
int load_gpt2(struct tokenizer *tokenizer, struct error *err);
int load_sentencepiece(struct tokenizer *tokenizer, struct error *err);
int load_huggingface(struct tokenizer *tokenizer, struct error *err);
int load_tiktoken(struct tokenizer *tokenizer, struct error *err);

/* Build tokenizer->unigram from scores by id. Unknown characters, the trie and the rounding of sums
 * are already set. */
void model_set_unigram(struct tokenizer *tokenizer, const double *scores);

/* The byte that a piece such as <0x0A> stands for, or -1. */
int byte_of_piece(const uint8_t *piece, size_t length);

/* FairseqWords: the ids of a text's words. */
void words_encode(const struct tokenizer *tokenizer, const char *text, size_t length,
                  struct token_buffer *out);

/* Append one id. */
static inline void token_buffer_put(struct token_buffer *out, int64_t id, size_t id_size)
{
    token_buffer_reserve(out, 1, id_size);
    if (id_size == 4)
        ((int32_t *)out->ids)[out->count++] = (int32_t)id;
    else
        ((uint16_t *)out->ids)[out->count++] = (uint16_t)id;
}

/* 'out' may be NULL. */
int null_encode(const struct tokenizer *tokenizer, const char *text, size_t length,
                struct token_buffer *out, struct error *err);

#endif
