/* SPDX-License-Identifier: Apache-2.0 */
/* The options that name a tokenizer, for the option tables of commands:
 *
 *     struct settings { struct tokenizer_config tokenizer; ... };
 *     static const struct option options[] = {
 *         TOKENIZER_OPTIONS(struct settings, tokenizer),
 *         ...
 */
#ifndef MEGATRON_TOKENIZER_OPTIONS_H
#define MEGATRON_TOKENIZER_OPTIONS_H

#include "base/core/option.h"
#include "tokenizer.h"

#define TOKENIZER_AT(target, member, field) \
    (offsetof(target, member) + offsetof(struct tokenizer_config, field))

/* clang-format off */
#define TOKENIZER_OPTIONS(target, member) \
    {"Tokenizer", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0}, \
    {"tokenizer-type", OPTION_CHOICE, TOKENIZER_AT(target, member, type), "TYPE", \
     "GPT2BPETokenizer (default), Llama2Tokenizer, Llama3Tokenizer, TikTokenizer, " \
     "[GPT]SentencePieceTokenizer, HuggingFaceTokenizer, BertWordPieceLowerCase, " \
     "BertWordPieceCase, FairseqWords, FairseqBPE or NullTokenizer", TOKENIZER_TYPES, 0, 0}, \
    {"vocab-file", OPTION_TEXT, TOKENIZER_AT(target, member, vocab_file), "FILE", \
     "vocab.json of a GPT2BPETokenizer (default: GPT-2's), vocab.txt of BertWordPiece*, " \
     "dict.txt of Fairseq*", NULL, 0, 0}, \
    {"merge-file", OPTION_TEXT, TOKENIZER_AT(target, member, merge_file), "FILE", \
     "merges.txt of a GPT2BPETokenizer (default: GPT-2's)", NULL, 0, 0}, \
    {"tokenizer-model", OPTION_TEXT, TOKENIZER_AT(target, member, model), "FILE", \
     "SentencePiece model, tiktoken file or tokenizer.json of the other types", NULL, 0, 0}, \
    {"vocab-size", OPTION_INT, TOKENIZER_AT(target, member, vocab_size), "N", \
     "number of ids of a NullTokenizer, without the end-of-document token", NULL, 1, \
     INT32_MAX - 1}, \
    {"special-tokens-as-text", OPTION_FLAG, TOKENIZER_AT(target, member, special_as_text), NULL, \
     "treat special tokens in a text, such as <|endoftext|>, as plain text", NULL, 0, 0}, \
    {"tokenizer-llama3-release", OPTION_CHOICE, TOKENIZER_AT(target, member, llama3_release), \
     NULL, "release that names the special tokens of a Llama3Tokenizer (default: 3)", "3|3.1", \
     0, 0}, \
    {"tokenizer-hf-include-special-tokens", OPTION_FLAG, \
     TOKENIZER_AT(target, member, add_specials), NULL, \
     "add the special tokens of a HuggingFaceTokenizer's post-processor to each text", NULL, 0, \
     0}, \
    {"tokenizer-hf-no-include-special-tokens", OPTION_UNFLAG, \
     TOKENIZER_AT(target, member, add_specials), NULL, "do not add them (the default)", NULL, 0, \
     0}, \
    {"tokenizer-hf-use-fast", OPTION_FLAG, TOKENIZER_AT(target, member, fast), NULL, \
     "accepted: the ids are always those of Hugging Face's fast tokenizers", NULL, 0, 0}, \
    {"tokenizer-hf-no-use-fast", OPTION_ABSENT, 0, NULL, \
     "the ids are always those of Hugging Face's fast tokenizers", NULL, 0, 0}, \
    {"tokenizer-add-bos", OPTION_FLAG, TOKENIZER_AT(target, member, add_bos), NULL, \
     "prepend the beginning-of-sequence token to each text", NULL, 0, 0}
/* clang-format on */

#endif
