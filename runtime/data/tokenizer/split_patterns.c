/* SPDX-License-Identifier: Apache-2.0 */
#include "split.h"

#include <string.h>

#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define TAIL    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define HEAD    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|" LETTERS
#define GPT2    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(end)                                                                             \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER \
    "*" end "|"
#define CASED_TAIL  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

/* Patterns that have a splitter of their own. */
static const struct {
    const char *pattern;
    struct split_options options;
} patterns[] = {
    {GPT2, {.rule = SPLIT_GPT2}},
    {HEAD "\\p{N}{1,3}" TAIL, {.rule = SPLIT_LLAMA3, .digits = 3}},
    {HEAD "\\p{N}" TAIL, {.rule = SPLIT_LLAMA3, .digits = 1}},
    {HEAD "\\p{N}+" TAIL, {.rule = SPLIT_LLAMA3, .digits = 0}},
    {LETTERS "\\p{N}" TAIL, {.rule = SPLIT_LLAMA3, .digits = 1, .no_contractions = 1}},
    {CASED(CONTRACTION) "\\p{N}{1,3}" CASED_TAIL, {.rule = SPLIT_CASED, .digits = 3}},
    {CASED(CONTRACTION) "\\p{N}" CASED_TAIL, {.rule = SPLIT_CASED, .digits = 1}},
    {CASED("") "\\p{N}{1,3}" CASED_TAIL, {.rule = SPLIT_CASED, .digits = 3, .no_contractions = 1}},
    {CASED("") "\\p{N}" CASED_TAIL, {.rule = SPLIT_CASED, .digits = 1, .no_contractions = 1}},
};

int split_options_of(const char *pattern, size_t length, struct split_options *options)
{
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
        if (length == strlen(patterns[i].pattern) &&
            memcmp(pattern, patterns[i].pattern, length) == 0) {
            *options = patterns[i].options;
            return 1;
        }
    return 0;
}

const char *split_pattern(const struct split_options *options)
{
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        const struct split_options *other = &patterns[i].options;

        if (other->rule == options->rule && other->digits == options->digits &&
            other->no_contractions == options->no_contractions)
            return patterns[i].pattern;
    }
    return NULL;
}
