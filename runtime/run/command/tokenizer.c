/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "commands.h"
#include "data_common.h"
#include "base/core/option_rows.h"
#include "data/vocabulary/learn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tokenizer_train_options {
    struct data_words common;
    struct option_list specials;
    int type, split;
    int64_t vocab_size, min_frequency, limit_alphabet, max_words;
    int cased, split_scripts;
};

#define AT(field) offsetof(struct tokenizer_train_options, field)

static const struct option table[] = {
    DATA_INPUT_OPTIONS(common),
    TEXT("output", common.output, "DIR", "write the vocabulary's files to this directory"),
    DATA_OVERWRITE_OPTION(common),
    HEADING("Vocabulary"),
    WORD("type", type, "TYPE", LEARN_TYPES,
         "bpe: byte-level BPE; unigram: SentencePiece; wordpiece: BERT"),
    RANGE("vocab-size", vocab_size, 1, 1 << 24, "number of tokens, special ones included"),
    VALUES("special-tokens", specials, "TOKEN...",
           "special tokens (default: <|endoftext|> for bpe; BERT's for wordpiece)"),
    RANGE("min-frequency", min_frequency, 0, INT64_MAX,
          "do not merge pairs that occur fewer than N times; bpe and wordpiece",
          .needs = "type=bpe|type=wordpiece"),
    WORD("split", split, "RULE", LEARN_SPLITS,
         "how bpe splits texts into words: gpt2, llama3 or o200k", .needs = "type=bpe"),
    RANGE("limit-alphabet", limit_alphabet, 1, 0x110000,
          "keep the N most frequent characters (default: 1000 for wordpiece; for unigram as many "
          "as cover 99.95 % of the text)",
          .needs = "type=unigram|type=wordpiece"),
    FLAG("cased", cased, "wordpiece: keep upper case and accents", .needs = "type=wordpiece"),
    UNFLAG("no-split-by-unicode-script", split_scripts,
           "unigram: allow pieces that mix letters with punctuation, digits or letters of other "
           "scripts",
           .needs = "type=unigram"),
    RANGE("max-words", max_words, 1000, UINT32_MAX - 1,
          "learn from the N most frequent words; limits the memory"),
    DATA_WORK_OPTIONS(common),
    {0},
};

static const char *const bert_specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
static const char *const gpt_specials[] = {"<|endoftext|>"};

static void choose_specials(const struct tokenizer_train_options *words,
                            struct learn_config *config)
{
    config->specials = words->specials.items;
    config->special_count = words->specials.count;
    if (words->specials.count > 0 || words->type == LEARN_UNIGRAM)
        return;
    config->specials = words->type == LEARN_WORDPIECE ? bert_specials : gpt_specials;
    config->special_count = words->type == LEARN_WORDPIECE
                                ? sizeof(bert_specials) / sizeof(bert_specials[0])
                                : sizeof(gpt_specials) / sizeof(gpt_specials[0]);
}

/* Unknown words need a token. */
static int check_specials(const struct tokenizer_train_options *words, struct error *err)
{
    if (words->type != LEARN_WORDPIECE || words->specials.count == 0)
        return 0;
    for (size_t i = 0; i < words->specials.count; i++)
        if (strcmp(words->specials.items[i], "[UNK]") == 0)
            return 0;
    return error_set_code(err, ERROR_USAGE,
                          "--special-tokens of a wordpiece vocabulary must contain [UNK], the "
                          "token for unknown words; add it");
}

static int train(void *given, const struct options_result *result, struct error *err)
{
    struct tokenizer_train_options *words = given;
    struct learn_config config = {
        .type = (enum learn_type)words->type,
        .split = (enum learn_split)words->split,
        .vocab_size = words->vocab_size,
        .min_frequency = words->min_frequency,
        .limit_alphabet = words->type == LEARN_WORDPIECE && words->limit_alphabet == 0
                              ? 1000
                              : words->limit_alphabet,
        .max_words = words->max_words,
        .cased = words->cased,
        .split_scripts = words->split_scripts,
    };

    (void)result;
    if (!words->common.output || !words->common.output[0])
        return error_set_code(err, ERROR_USAGE, "--output is required: the directory to write to");
    if (check_specials(words, err) < 0 ||
        data_words_take(&words->common, "tokenizer train", &config.base, err) < 0)
        return -1;
    choose_specials(words, &config);
    return learn_vocabulary(&config, err);
}

static const struct command command_train_tokenizer = {
    .name = "tokenizer train",
    .usage = "Usage: megatron tokenizer train --input FILE... --output DIR [OPTION...]\n"
             "Learn the vocabulary of a tokenizer from a corpus.\n",
    .options = table,
    .size = sizeof(struct tokenizer_train_options),
    .defaults = &(const struct tokenizer_train_options){.common = DATA_DEFAULTS,
                                                        .vocab_size = 32000,
                                                        .min_frequency = 2,
                                                        .max_words = 30000000,
                                                        .split_scripts = 1},
    .unexpected = "use --input to name files",
    .run = train,
};

const struct command command_tokenizer = {
    .name = "tokenizer",
    .summary = "learn a tokenizer's vocabulary from a corpus",
    .actions = (const struct command *const[]){&command_train_tokenizer, NULL},
};
