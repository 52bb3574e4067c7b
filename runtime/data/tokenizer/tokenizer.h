/* SPDX-License-Identifier: Apache-2.0 */
/* Text to token ids and back: byte-level BPE, SentencePiece (BPE and Unigram) and WordPiece, with
 * the same ids as the programs that trained the vocabularies.
 *
 *     struct tokenizer *tokenizer = tokenizer_create(&config, &err);
 *     struct encoder *encoder = encoder_create(tokenizer, 0, &err);      one per thread
 *     struct token_buffer ids = {0};
 *
 *     tokenizer_encode(encoder, text, length, &ids, &err);
 *     tokenizer_append(encoder, tokenizer_eod(tokenizer), &ids, &err);
 *
 * A tokenizer is immutable once created and shared by threads. An encoder is a cache of words and
 * scratch memory. Ids are written in the form of .bin files. */
#ifndef MEGATRON_TOKENIZER_H
#define MEGATRON_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"

/* Megatron-LM's names. */
enum tokenizer_type {
    TOKENIZER_GPT2_BPE,      /* vocab.json and merges.txt; without files, GPT-2's own */
    TOKENIZER_LLAMA2,        /* a SentencePiece BPE model */
    TOKENIZER_SENTENCEPIECE, /* a SentencePiece model, BPE or Unigram */
    TOKENIZER_GPT_SENTENCEPIECE,
    TOKENIZER_LLAMA3,      /* ranks in tiktoken's text form, with Llama 3's split and specials */
    TOKENIZER_TIKTOKEN,    /* ranks in tiktoken's text form or as Megatron's JSON list */
    TOKENIZER_HUGGINGFACE, /* a tokenizer.json, or a directory that contains one */
    TOKENIZER_BERT_LOWER_CASE, /* WordPiece: BERT's vocab.txt, uncased */
    TOKENIZER_BERT_CASE,       /* WordPiece: BERT's vocab.txt, cased */
    TOKENIZER_FAIRSEQ_WORDS,   /* fairseq's dict.txt: an id for each word */
    TOKENIZER_FAIRSEQ_BPE,     /* GPT-2's BPE with RoBERTa's ids, which dict.txt lists */
    TOKENIZER_NULL,            /* texts are already numbers */
};
#define TOKENIZER_TYPES                                                                  \
    "GPT2BPETokenizer|Llama2Tokenizer|SentencePieceTokenizer|GPTSentencePieceTokenizer|" \
    "Llama3Tokenizer|TikTokenizer|HuggingFaceTokenizer|BertWordPieceLowerCase|"          \
    "BertWordPieceCase|FairseqWords|FairseqBPE|NullTokenizer"

/* Releases of Llama 3 by the names of their special tokens, which tokenizer.model does not have. */
enum llama3_release { LLAMA_3_0, LLAMA_3_1 };

/* All zero is GPT-2. */
struct tokenizer_config {
    int type;               /* enum tokenizer_type */
    const char *vocab_file; /* GPT-2: vocab.json */
    const char *merge_file; /* GPT-2: merges.txt */
    const char *model;      /* the model, rank or JSON file of the other types */
    int64_t vocab_size;     /* NullTokenizer: number of ids without the end of document */
    int special_as_text;    /* treat special tokens within a text as plain text */
    int add_bos;            /* prepend the beginning-of-sequence token to each text */
    int add_specials;       /* HuggingFaceTokenizer: add the special tokens of its post-processor */
    int llama3_release;     /* Llama3Tokenizer: enum llama3_release */
    int fast;               /* --tokenizer-hf-use-fast: accepted, there are no others */
};

struct tokenizer;
struct encoder;

/* Load the vocabulary. Returns NULL with an error that names the file and the place in it. */
struct tokenizer *tokenizer_create(const struct tokenizer_config *config, struct error *err);

/* Destroy its encoders first. NULL is allowed. */
void tokenizer_destroy(struct tokenizer *tokenizer);

/* The name of a type as users write it. */
const char *tokenizer_type_name(enum tokenizer_type type);

/* Number of ids: one more than the largest. */
int64_t tokenizer_vocab_size(const struct tokenizer *tokenizer);

/* End of document, beginning and end of sequence; -1 if the vocabulary has none. */
int64_t tokenizer_eod(const struct tokenizer *tokenizer);
int64_t tokenizer_bos(const struct tokenizer *tokenizer);
int64_t tokenizer_eos(const struct tokenizer *tokenizer);

/* The id of a token such as <mask>; -1 where the vocabulary has none. */
int64_t tokenizer_token(const struct tokenizer *tokenizer, const char *text);

/* Bytes of one id in a .bin file: 2 (uint16) below 65500 entries, else 4 (int32). */
size_t tokenizer_id_size(const struct tokenizer *tokenizer);

/* Identifies a tokenizer independently of the kind of file it is read from: special tokens, which
 * not all kinds list, and merges do not count. */
struct tokenizer_identity {
    char type[32]; /* "" if no tokenizer is known */
    int64_t vocab_size, eod;
    uint64_t texts; /* hash of ids and their texts; 0: no texts, as in a NullTokenizer */
    uint64_t own;   /* hash without tokens that were added after all others; 0: not known */
};
void tokenizer_identify(const struct tokenizer *tokenizer, struct tokenizer_identity *identity);

/* A growing list of ids in .bin form. All zero is empty; `count` may be reset to 0 to reuse the
 * memory. token_buffer_clear frees it. */
struct token_buffer {
    void *ids;       /* uint16_t or int32_t by tokenizer_id_size */
    size_t count;    /* ids, not bytes */
    size_t capacity; /* ids */
};

/* Make room for 'more' further ids. */
void token_buffer_reserve(struct token_buffer *buffer, size_t more, size_t id_size);
void token_buffer_clear(struct token_buffer *buffer);

/* The id at an index. */
static inline int64_t token_buffer_at(const struct token_buffer *buffer, size_t at, size_t id_size)
{
    return id_size == 4 ? ((const int32_t *)buffer->ids)[at] : ((const uint16_t *)buffer->ids)[at];
}

/* One per thread. 'cache_bytes' bounds its cache of words (0: 24 MiB; 64 KiB to 1 GiB otherwise,
 * rounded to a power of two); the ids do not depend on it. */
struct encoder *encoder_create(const struct tokenizer *tokenizer, size_t cache_bytes,
                               struct error *err);
void encoder_destroy(struct encoder *encoder);

/* The texts to come are parts of a line: FairseqBPE keeps spaces at their beginning and end, which
 * it strips from whole lines. */
void encoder_keep_spaces(struct encoder *encoder);

/* Append the ids of one text (any bytes; it need not end with a NUL, and NULs within it are text)
 * to 'out'. Bytes that are not UTF-8 keep their values in byte-level tokenizers and become U+FFFD
 * in SentencePiece ones. An empty text has no ids (one with add_bos). Returns 0, or -1 with 'err'
 * set and 'out' unchanged: a text of 4 GiB or more, also after its normalization, or, for
 * NullTokenizer, one that is not numbers. */
int tokenizer_encode(struct encoder *encoder, const char *text, size_t length,
                     struct token_buffer *out, struct error *err);

/* Would tokenizer_encode accept this text? Only a NullTokenizer rejects texts. */
int tokenizer_accepts(const struct tokenizer *tokenizer, const char *text, size_t length);

/* Append one id, such as the end of document. */
int tokenizer_append(struct encoder *encoder, int64_t id, struct token_buffer *out,
                     struct error *err);

/* A growing list of bytes. All zero is empty. */
struct text_buffer {
    char *data;
    size_t length, capacity;
};
void text_buffer_clear(struct text_buffer *buffer);

/* Make room for this many more bytes. */
void text_buffer_reserve(struct text_buffer *buffer, size_t more);

/* Append. */
void text_buffer_put(struct text_buffer *buffer, const void *text, size_t length);

/* Append the text of 'count' ids. Special tokens are written as text, SentencePiece's control
 * pieces are omitted. Returns 0, or -1 for an id outside the vocabulary. */
int tokenizer_decode(const struct tokenizer *tokenizer, const int64_t *ids, size_t count,
                     struct text_buffer *out, struct error *err);

/* The text of one id as in the vocabulary, with spaces as spaces; NULL if it has none. */
const char *tokenizer_piece(const struct tokenizer *tokenizer, int64_t id, size_t *length);

#endif
