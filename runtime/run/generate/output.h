/* SPDX-License-Identifier: Apache-2.0 */
/* Print texts for people, or as JSON for programs. */
#ifndef MEGATRON_OUTPUT_H
#define MEGATRON_OUTPUT_H

#include <stdio.h>
#include "generator.h"
#include "data/tokenizer/tokenizer.h"

/* The texts of one round being printed. */
struct output {
    const struct tokenizer *tokenizer;
    FILE *stream;
    int json;
    int growing; /* show an unfinished text as it grows; else whole texts, in whole lines */
    const struct text *texts;
    int64_t count;
    int64_t at;     /* index of the text being shown */
    size_t shown;   /* bytes of it that are printed */
    int begun;      /* it is being shown */
    int64_t before; /* texts shown in earlier rounds */
};

/* Print a JSON string; invalid UTF-8 (such as a character cut in two) becomes U+FFFD. */
void output_string(FILE *stream, const char *text, size_t length);

/* Print what is new. When a text is complete the next one follows. Returns 0 or -1. */
int output_show(struct output *output, struct error *err);

#endif
