/* SPDX-License-Identifier: Apache-2.0 */
/* The options that name a tokenizer, for the option tables of commands:
 *
 *     struct settings { struct tokenizer_config tokenizer; ... };
 *     static const struct option options[] = {
 *         TOKENIZER_OPTIONS(tokenizer),
 *         ...
 */
#ifndef MEGATRON_TOKENIZER_OPTIONS_H
#define MEGATRON_TOKENIZER_OPTIONS_H

#include "base/core/option_rows.h"
#include "tokenizer.h"

#define TOKENIZER_OPTIONS(member)                                                                 \
    HEADING("Tokenizer"),                                                                         \
        WORD("tokenizer-type", member.type, "TYPE", TOKENIZER_TYPES,                              \
             "GPT2BPETokenizer, Llama2Tokenizer, Llama3Tokenizer, TikTokenizer, "                 \
             "[GPT]SentencePieceTokenizer, HuggingFaceTokenizer, BertWordPieceLowerCase, "        \
             "BertWordPieceCase, FairseqWords, FairseqBPE or NullTokenizer"),                     \
        TEXT("vocab-file", member.vocab_file, "FILE",                                             \
             "vocab.json of a GPT2BPETokenizer (default: GPT-2's), vocab.txt of BertWordPiece*, " \
             "dict.txt of Fairseq*"),                                                             \
        TEXT("merge-file", member.merge_file, "FILE",                                             \
             "merges.txt of a GPT2BPETokenizer (default: GPT-2's)"),                              \
        TEXT("tokenizer-model", member.model, "FILE",                                             \
             "SentencePiece model, tiktoken file or tokenizer.json of the other types"),          \
        RANGE("vocab-size", member.vocab_size, 1, INT32_MAX - 1,                                  \
              "number of ids of a NullTokenizer, without the end-of-document token"),             \
        FLAG("special-tokens-as-text", member.special_as_text,                                    \
             "treat special tokens in a text, such as <|endoftext|>, as plain text"),             \
        CHOICE("tokenizer-llama3-release", member.llama3_release, "3|3.1",                        \
               "release that names the special tokens of a Llama3Tokenizer"),                     \
        FLAG("tokenizer-hf-include-special-tokens", member.add_specials,                          \
             "add the special tokens of a HuggingFaceTokenizer's post-processor to each text"),   \
        UNFLAG("tokenizer-hf-no-include-special-tokens", member.add_specials,                     \
               "do not add them (the default)"),                                                  \
        FLAG("tokenizer-hf-use-fast", member.fast,                                                \
             "accepted: the ids are always those of Hugging Face's fast tokenizers"),             \
        ABSENT("tokenizer-hf-no-use-fast",                                                        \
               "the ids are always those of Hugging Face's fast tokenizers"),                     \
        FLAG("tokenizer-add-bos", member.add_bos,                                                 \
             "prepend the beginning-of-sequence token to each text")

/* Was a tokenizer named, rather than left to its default? */
static inline bool tokenizer_is_named(const struct options_result *result)
{
    return options_given(result, "tokenizer-type") || options_given(result, "tokenizer-model") ||
           options_given(result, "vocab-file") || options_given(result, "merge-file");
}

#endif
