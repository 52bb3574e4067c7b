/* Texts written token by token by one model over all ranks of a layout: tensor parallelism divides
 * layers and logits, the stages of a pipeline pass activations on, and all ranks of a data-parallel
 * group have the same texts. */
#ifndef MEGATRON_GENERATOR_H
#define MEGATRON_GENERATOR_H

#include "model.h"
#include "sampler.h"

enum finish { FINISH_NOT, FINISH_LENGTH, FINISH_STOP };

/* One text: its prompt and what was written behind it. */
struct text {
    int32_t *ids;    /* room for 'limit' */
    int64_t prompt;  /* tokens of the prompt, at least 1 */
    int64_t length;  /* tokens so far; a token that ends the text is not kept */
    int64_t limit;   /* tokens at most */
    uint64_t number; /* for the random numbers of its sampling */
    enum finish finish;
};

enum { STOPS = 8 };

struct generator_config {
    struct model_config model; /* its network, type and padded vocabulary; the rest is set here */
    int64_t texts;             /* written side by side, at most */
    int64_t longest;           /* text, in tokens */
    int64_t vocabulary;        /* only tokens below this are written */
    struct sampling sampling;
    int64_t stops[STOPS]; /* tokens that end a text */
    int stop_count;
    double deadline;
};

struct generator;

/* Everything of a rank, with all memory but that of prompts. 'parallel' and 'device' must outlive
 * it. Caller must destroy. */
struct generator *generator_create(const struct generator_config *config,
                                   const struct parallel *parallel, struct device *device,
                                   struct error *err);
void generator_destroy(struct generator *generator);

/* The model, for a loader to fill its gradient arena; generator_start takes the weights from there.
 */
struct model *generator_model(struct generator *generator);
int generator_start(struct generator *generator, struct error *err);

/* Continue 'count' texts (at most config.texts) until all are finished. The prompts go through in
 * one pass. 'step' (or NULL) is called after each token of all texts. Collective over the ranks
 * that have the same texts. */
int generator_run(struct generator *generator, struct text *texts, int64_t count,
                  void (*step)(void *context), void *context, struct error *err);

/* Seconds and tokens of all prompts, and of all passes behind them. */
struct generator_times {
    double prompt_seconds, seconds;
    int64_t prompt_tokens, tokens;
};
struct generator_times generator_times(const struct generator *generator);

#endif
