/* SPDX-License-Identifier: Apache-2.0 */
/* Table-driven command lines: one row per option; the parser and the --help text use the same rows.
 */
#ifndef MEGATRON_OPTION_H
#define MEGATRON_OPTION_H

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
    OPTION_IGNORED, /* accepted with its values and ignored, with a note. A name that ends in *
                       matches every name with that prefix */
    OPTION_SHORT,   /* 'name' is a letter, given with one dash; 'help' is the long name */
    OPTION_RENAMED, /* rejected: 'help' is the name to use instead */
    OPTION_ABSENT,  /* rejected: an option of Megatron-LM that does not exist here; 'help' says what
                       to use instead. A name that ends in * matches like OPTION_IGNORED */
};

/* Words pointing into argv. Owned by the caller: free(items). */
struct option_list {
    const char **items;
    size_t count;
};

struct option {
    const char *name; /* without the leading "--" */
    enum option_type type;
    size_t offset;        /* offset of the value in the target struct */
    const char *argument; /* placeholder for the value in the help text: "N", "FILE" */
    const char *help;
    const char *choices;
    int64_t min, max;
};

/* What a command line contained besides the values in the target. options_result_clear frees it. */
struct options_result {
    const char **words; /* the words that do not belong to an option, in order; ends with NULL */
    size_t word_count;
    const char *
        *ignored; /* the words that gave OPTION_IGNORED options, in order: "--name[=value]" */
    size_t ignored_count;
    unsigned char *given; /* one per table row: was it on the command line */
    const struct option *table;
    size_t rows;
    int help; /* --help or -h was given; the words after it were not read */
};

/* Parse 'argc' words of 'argv' (without the command's own name) by 'table', which ends with a row
 * whose name is NULL, into the struct at 'target'. Accepts `--name value`, `--name=value`, and `--`
 * before words that start with a dash; '_' and '-' in names are equivalent. If an option is given
 * twice, the last value wins (but see OPTION_TEXTS). The error for an unknown name suggests known
 * ones that are spelled almost the same or consist of the same words. Returns 0, or -1 with code
 * ERROR_USAGE; the caller clears 'result' in both cases. */
int options_parse(const struct option *table, void *target, int argc, const char *const *argv,
                  struct options_result *result, struct error *err);

/* Is layer 'number', counted from 0, one of those that an OPTION_LAYERS chose? Its value is N, for
 * every Nth layer, or a list with 0 or 1 for each layer, in Python's notation: "([0]*3+[1])*4". It
 * is kept as the bits of one period, below a bit that marks its length; 0: no layer. */
static inline int option_has_layer(int64_t layers, int64_t number)
{
    int period = layers > 0 ? 63 - __builtin_clzll((unsigned long long)layers) : 0;

    return period > 0 && (layers >> (number % period) & 1);
}

/* For words that are not parsed: if 'word' is the option "--name", or "--name=value", return what
 * follows the name, "" or "=value"; otherwise NULL. '_' and '-' are equivalent. */
const char *option_after(const char *word, const char *option);

/* Was option 'name' on the command line? */
int options_given(const struct options_result *result, const char *name);

void options_result_clear(struct options_result *result);

/* Print the rows of 'table' as the option part of a --help text. */
void options_print(const struct option *table, FILE *stream);

#endif
