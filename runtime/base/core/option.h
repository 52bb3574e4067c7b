/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines from a table with one row per option: its name, type and help, its default and its
 * range, and which other options it needs, excludes or replaces.
 *
 *     static const struct option table[] = {
 *         {.name = "save", .type = OPTION_TEXT, .offset = offsetof(struct words, save), .argument =
 * "DIR", .help = "where to save checkpoints"},
 *         {.name = "save-interval", .type = OPTION_INT, .offset = offsetof(struct words, interval),
 *          .min = 1, .max = 1000, .fallback = 500, .needs = "save", .help = "steps between
 * checkpoints"}, {0},
 *     };
 *     options_default(table, &words);
 *     if (options_parse(table, &words, argc, argv, &result, err) < 0 || options_check(&result,
 * &words, err) < 0)
 *         ...
 *     options_note(&result, &words);
 */
#ifndef MEGATRON_OPTION_H
#define MEGATRON_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "lib/error.h"

enum option_type {
    OPTION_HEADING, /* not an option: 'name' is a heading in the help text */
    OPTION_FLAG,    /* int, set to 1 */
    OPTION_UNFLAG,  /* int, set to 0: for --no-... */
    OPTION_SET,     /* int, set to 'min': one of several options for a property */
    OPTION_INT,     /* int64_t in [min, max] (any value if both are 0) */
    OPTION_BYTES,   /* int64_t in [min, max], also written as 64k, 128M or 1G, powers of 1024 */
    OPTION_REAL,    /* double */
    OPTION_TEXT,    /* const char *, pointing into argv */
    OPTION_CHOICE,  /* int: 'min' plus the index of the word within 'choices' ("a|b|c") */
    OPTION_LAYERS,  /* int64_t: chosen layers, see option_has_layer */
    OPTION_LIST,    /* struct option_list: all words up to the next option */
    OPTION_TEXTS,   /* struct option_list: one word each time the option is given */
    OPTION_IGNORED, /* accepted with its values and ignored; 'help' says why, for a note. A name
                       that ends in * matches every name with that prefix */
    OPTION_ALIAS,   /* another name of the option 'same' */
    OPTION_SHORT,   /* the same, but 'name' is a letter that is given with one dash */
    OPTION_RENAMED, /* rejected: 'help' is the name to use instead */
    OPTION_ABSENT,  /* rejected: an option of Megatron-LM that does not exist here; 'help' says what
                       to use instead. A name that ends in * matches like OPTION_IGNORED */
};

/* Words pointing into argv. Owned by the caller: free(items). */
struct option_list {
    const char **items;
    size_t count;
};

/* The values that an OPTION_REAL takes. */
enum option_range {
    REAL_ANY,
    REAL_POSITIVE,
    REAL_NOT_NEGATIVE,
    REAL_BELOW_1,  /* from 0 to 1, but not 1 */
    REAL_UP_TO_1,  /* from 0 to 1, but not 0 */
    REAL_FRACTION, /* from 0 to 1 */
    REAL_INSIDE,   /* between 0 and 1 */
};

/* Conditions name options, separated by '|': "save" holds if that option is given, or is a flag or
 * a text that is set by other means; "style=cosine" if it has this value and, if the option has an
 * effect only under a condition, that holds as well. */
struct option {
    const char *name; /* without the leading "--" */
    enum option_type type;
    size_t offset;        /* offset of the value in the target struct */
    const char *argument; /* placeholder for the value in the help text: "N", "FILE" */
    const char *help;
    const char *choices;
    int64_t min, max;
    enum option_range range;
    double fallback;       /* the default; OPTION_NOT_GIVEN if there is none */
    const char *otherwise; /* the default in words, for --help, if it is not a number */
    const char *needs;     /* conditions, one of which must hold */
    const char *refuses;   /* conditions, none of which may hold on the command line */
    const char *idle;      /* without one of these conditions the option has no effect */
    const char *same;      /* the option that this row is another name of */
};

/* The value of numbers and choices that are not given and have no default. */
enum { OPTION_NOT_GIVEN = -1 };

/* What a command line contained besides the values in the target. options_result_clear frees it. */
struct options_result {
    const char **words; /* the words that do not belong to an option, in order; ends with NULL */
    size_t word_count;
    struct {
        const char *word, *because; /* "--name[=value]" */
    } * ignored;                    /* OPTION_IGNORED, in order */
    size_t ignored_count;
    unsigned char *given; /* one per table row: was it on the command line */
    const struct option *table;
    size_t rows;
    bool help; /* --help or -h was given; the words after it were not read */
};

/* Set the defaults in 'target', which is zero or has defaults of its own for rows without
 * 'fallback'. A whole number that would be below its range becomes OPTION_NOT_GIVEN. */
void options_default(const struct option *table, void *target);

/* Other defaults: 'options' as on a command line, but without dashes and with '|' between them, as
 * in "epsilon=1e-6|swiglu". They are set unless the command line has the option or another one for
 * the same value. A text must come last: it is not copied. Returns 0 or -1. */
int options_preset(const struct options_result *result, void *target, const char *options,
                   struct error *err);

/* Parse 'argc' words of 'argv' (without the command's own name) by 'table', which ends with a row
 * whose name is NULL, into the struct at 'target'. Accepts `--name value`, `--name=value`, and `--`
 * before words that start with a dash; '_' and '-' in names are equivalent. If an option is given
 * twice, the last value wins (but see OPTION_TEXTS). The error for an unknown name suggests known
 * ones that are spelled almost the same or consist of the same words. Options that refuse each
 * other are an error. Returns 0, or -1 with code ERROR_USAGE; the caller clears 'result' in both
 * cases. */
int options_parse(const struct option *table, void *target, int argc, const char *const *argv,
                  struct options_result *result, struct error *err);

/* Is there an option without any of those that it needs? Called when all values are known, those
 * that do not come from the command line, too. Returns 0 or -1. */
int options_check(const struct options_result *result, const void *target, struct error *err);

/* Write notes about ignored options, and warnings about those that have no effect. */
void options_note(const struct options_result *result, const void *target);

/* Is layer 'number', counted from 0, one of those that an OPTION_LAYERS chose? Its value is N, for
 * every Nth layer, or a list with 0 or 1 for each layer, in Python's notation: "([0]*3+[1])*4". It
 * is kept as the bits of one period, below a bit that marks its length; 0: no layer. */
static inline bool option_has_layer(int64_t layers, int64_t number)
{
    int period = layers > 0 ? 63 - __builtin_clzll((unsigned long long)layers) : 0;

    return period > 0 && (layers >> (number % period) & 1);
}

/* For words that are not parsed: if 'word' is the option "--name", or "--name=value", return what
 * follows the name, "" or "=value"; otherwise NULL. '_' and '-' are equivalent. */
const char *option_after(const char *word, const char *option);

/* Was option 'name' on the command line, by any of its names? */
bool options_given(const struct options_result *result, const char *name);

/* The word of an OPTION_CHOICE for 'value', of '*length' characters; NULL: there is none. */
const char *option_word(const struct option *row, int value, int *length);

/* Was this option, or another one for the same value, on the command line? */
bool options_value_given(const struct options_result *result, const struct option *row);

void options_result_clear(struct options_result *result);

/* Print the rows of 'table' as the option part of a --help text, with the defaults that 'defaults',
 * a target, contains; NULL: none. */
void options_print(const struct option *table, const void *defaults, FILE *stream);

#endif
