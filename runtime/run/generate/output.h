/* SPDX-License-Identifier: Apache-2.0 */
/* Prints generated texts, as text or as JSON. */
#ifndef MEGATRON_OUTPUT_H
#define MEGATRON_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>
#include "generator.h"
#include "data/tokenizer/tokenizer.h"

/* The texts of one round being printed. */
struct output {
    const struct tokenizer *tokenizer;
    FILE *stream;
    bool json;
    bool growing; /* show an unfinished text as it grows; else whole texts, in whole lines */
    const struct text *texts;
    int64_t count;
    int64_t at;     /* index of the text being shown */
    size_t shown;   /* bytes of it that have been printed */
    bool begun;     /* its first part has been printed */
    int64_t before; /* texts shown in earlier rounds */
};

/* Print what is new. When a text is complete the next one follows. Returns 0 or -1. */
int output_show(struct output *output, struct error *err);

#endif
