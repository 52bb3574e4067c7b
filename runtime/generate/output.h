/* Texts as people and programs read them. */
#ifndef MEGATRON_OUTPUT_H
#define MEGATRON_OUTPUT_H

#include <stdio.h>
#include "generator.h"
#include "tokenizer.h"

/* Texts of a round on their way out: the first that is not finished is shown as it grows. */
struct output {
    const struct tokenizer *tokenizer;
    FILE *stream;
    int json;
    const struct text *texts;
    int64_t count;
    int64_t at;     /* the text being shown */
    size_t shown;   /* its bytes that are out */
    int begun;      /* it is being shown */
    int64_t before; /* texts shown in rounds before */
};

/* Show what is new; a text that is complete is followed by the next. Returns 0 or -1. */
int output_show(struct output *output, struct error *err);

#endif
