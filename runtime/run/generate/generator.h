/* SPDX-License-Identifier: Apache-2.0 */
/* Generates texts token by token with one model over all ranks of a layout: tensor parallelism
 * divides layers and logits, pipeline stages pass activations on, and all ranks of a data-parallel
 * group have the same texts. */
#ifndef MEGATRON_GENERATOR_H
#define MEGATRON_GENERATOR_H

#include "engine/model/model.h"
#include "sampler.h"
#include "run/exchange/origin.h"

enum finish { FINISH_NOT, FINISH_LENGTH, FINISH_STOP };

/* One text: its prompt and the tokens generated after it. */
struct text {
    int32_t *ids;    /* capacity: 'limit' */
    int64_t prompt;  /* number of prompt tokens, at least 1 */
    int64_t length;  /* number of tokens so far; the token that ends the text is not kept */
    int64_t limit;   /* maximum number of tokens */
    uint64_t number; /* index for the random numbers of sampling */
    enum finish finish;
    float *logits; /* NULL, or with config.logits room for 'limit' rows of the model's vocabulary */
};

/* The number of tokens that the model has read, each with a row of logits. */
int64_t text_rows(const struct text *text);

enum { STOPS = 8 };

struct generator_config {
    struct model_config model; /* model shape, type and padded vocabulary; the rest is set here */
    int64_t texts;             /* maximum number of texts generated together */
    int64_t longest;           /* maximum length of a text, in tokens */
    int64_t vocabulary;        /* only token ids below this are generated */
    struct sampling sampling;
    int64_t stops[STOPS]; /* tokens that end a text */
    int stop_count;
    int logits; /* prompts are read token by token, and the logits of each token are kept in
                   text->logits, on the last stage */
    double deadline;
};

struct generator;

/* Create everything a rank needs, with all memory except that of prompts. 'parallel' and 'device'
 * must outlive it. Caller must destroy. */
struct generator *generator_create(const struct generator_config *config,
                                   const struct parallel *parallel, struct device *device,
                                   struct error *err);
void generator_destroy(struct generator *generator);

/* The model, so that a loader can fill the model's start_weights; generator_start takes the weights
 * from there. */
struct model *generator_model(struct generator *generator);
int generator_start(struct generator *generator, struct error *err);

/* Continue 'count' texts (at most config.texts) until all are finished. The prompts are processed
 * in one pass, or token by token with config.logits. 'step' (or NULL) is called after each token of
 * all texts. Collective over the ranks that have the same texts. */
int generator_run(struct generator *generator, struct text *texts, int64_t count,
                  void (*step)(void *context), void *context, struct error *err);

/* Seconds and tokens of all prompt passes, and of all passes after them. */
struct generator_times {
    double prompt_seconds, seconds;
    int64_t prompt_tokens, tokens;
};
struct generator_times generator_times(const struct generator *generator);

/* Read this rank's part of the weights in 'directory', which 'origin' describes, into
 * the model's start_weights. Collective. */
int weights_load(const char *directory, const struct origin *origin, struct model *model,
                 const struct parallel *parallel, struct device *device, struct error *err);

#endif
