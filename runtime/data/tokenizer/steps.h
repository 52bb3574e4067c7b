/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenizers with arbitrary patterns, one after the other: each cuts the pieces of the previous
 * one. */
#ifndef MEGATRON_STEPS_H
#define MEGATRON_STEPS_H

#include "regex.h"

#define STEPS_MOST 8

/* Hugging Face's names. */
enum step_behavior {
    STEP_ISOLATED,      /* matches and the text between them */
    STEP_CONTIGUOUS,    /* adjacent matches are one piece */
    STEP_WITH_PREVIOUS, /* a match belongs to the text before it */
    STEP_WITH_NEXT,
};

struct step {
    struct regex regex;
    enum step_behavior behavior;
    int invert; /* swap matches and the text between them */
    int level;  /* after ByteLevel: a byte is a character */
};

struct steps {
    struct step *steps[STEPS_MOST];
    size_t count;
};

/* Add a step; steps_clear frees it. Returns 0 or -1 like regex_compile. */
int steps_add(struct steps *steps, const char *pattern, size_t length, int own,
              enum step_behavior behavior, int invert, int level, struct error *err);
void steps_clear(struct steps *steps);

/* A piece of a text; 'matched' is for the step that created it. */
struct piece {
    const uint8_t *begin, *end;
    int matched;
};

/* A text passing through the steps. */
struct stepping {
    const struct steps *steps;
    struct {
        const uint8_t *at, *end; /* the rest of the previous step's piece */
        struct piece held;       /* already found; begin is NULL if there is none */
        struct piece joined;     /* the same for pieces merged with their neighbors */
    } states[STEPS_MOST];
};

void stepping_begin(struct stepping *stepping, const struct steps *steps, const uint8_t *text,
                    size_t length);

/* The end of the next piece of the last step, or NULL after the last one. */
const uint8_t *stepping_next(struct stepping *stepping);

#endif
