/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "commands.h"
#include "data_common.h"
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
    DATA_INPUT_OPTIONS(struct tokenizer_train_options, common),
    {"output", OPTION_TEXT, DATA_AT(struct tokenizer_train_options, common, output), "DIR",
     "write the vocabulary's files to this directory", NULL, 0, 0},
    DATA_OVERWRITE_OPTION(struct tokenizer_train_options, common),
    {"Vocabulary", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"type", OPTION_CHOICE, AT(type), "TYPE",
     "bpe: byte-level BPE (default); unigram: SentencePiece; wordpiece: BERT", LEARN_TYPES, 0, 0},
    {"vocab-size", OPTION_INT, AT(vocab_size), "N",
     "number of tokens, special ones included (default: 32000)", NULL, 1, 1 << 24},
    {"special-tokens", OPTION_LIST, AT(specials), "TOKEN...",
     "special tokens (default: <|endoftext|> for bpe; BERT's for wordpiece)", NULL, 0, 0},
    {"min-frequency", OPTION_INT, AT(min_frequency), "N",
     "do not merge pairs that occur fewer than N times (default: 2); bpe and wordpiece", NULL, 0,
     INT64_MAX},
    {"split", OPTION_CHOICE, AT(split), "RULE",
     "how bpe splits texts into words: gpt2 (default), llama3 or o200k", LEARN_SPLITS, 0, 0},
    {"limit-alphabet", OPTION_INT, AT(limit_alphabet), "N",
     "keep the N most frequent characters (default: 1000 for wordpiece; for unigram as many as "
     "cover 99.95 % of the text)",
     NULL, 1, 0x110000},
    {"cased", OPTION_FLAG, AT(cased), NULL, "wordpiece: keep upper case and accents", NULL, 0, 0},
    {"no-split-by-unicode-script", OPTION_UNFLAG, AT(split_scripts), NULL,
     "unigram: allow pieces that mix letters with punctuation, digits or letters of other scripts",
     NULL, 0, 0},
    {"max-words", OPTION_INT, AT(max_words), "N",
     "learn from the N most frequent words (default: 30000000); limits the memory", NULL, 1000,
     UINT32_MAX - 1},
    DATA_WORK_OPTIONS(struct tokenizer_train_options, common),
    DATA_END,
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

/* Options that the type does not know are not passed over. */
static int check_type(const struct tokenizer_train_options *words,
                      const struct options_result *result, struct error *err)
{
    static const struct {
        const char *option;
        unsigned types; /* that take it, as bits */
    } rows[] = {
        {"min-frequency", 1 << LEARN_BPE | 1 << LEARN_WORDPIECE},
        {"split", 1 << LEARN_BPE},
        {"limit-alphabet", 1 << LEARN_UNIGRAM | 1 << LEARN_WORDPIECE},
        {"cased", 1 << LEARN_WORDPIECE},
        {"no-split-by-unicode-script", 1 << LEARN_UNIGRAM},
    };
    static const char *const names[] = {"bpe", "unigram", "wordpiece"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (options_given(result, rows[i].option) && !(rows[i].types >> words->type & 1))
            return error_set_code(err, ERROR_USAGE, "--%s has no effect with --type=%s; drop it",
                                  rows[i].option, names[words->type]);
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

    if (!words->common.output || !words->common.output[0])
        return error_set_code(err, ERROR_USAGE, "--output is required: the directory to write to");
    if (check_type(words, result, err) < 0 ||
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
