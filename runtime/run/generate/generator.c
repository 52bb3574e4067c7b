/* SPDX-License-Identifier: Apache-2.0 */
#include "generator.h"
#include "lib/clock.h"
#include "base/core/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A model for one pass length, and the batch it receives. */
struct window {
    struct model *model;
    struct model_batch batch; /* in host memory */
    void *host;
    size_t bytes;
    int64_t tokens; /* for each text */
};

struct generator {
    struct generator_config config;
    const struct parallel *parallel;
    struct device *device;
    struct device_stream *stream;
    struct window step, prompt; /* model for one token; model for the last prompts */
    /* this rank's logits */
    struct device_plan *widen;
    float *wide;
    float *logits; /* host */
    /* with config.logits: those of all ranks, on device and host */
    float *all_logits, *host_all_logits;
    /* candidates of this rank and of all ranks, and the picked tokens: on device and host */
    int64_t width;
    struct candidate *offers, *all_offers, *host_offers;
    int32_t *picked, *host_picked;
    struct generator_times times;
};

static int64_t round_up(int64_t x, int64_t unit)
{
    return (x + unit - 1) / unit * unit;
}

/* Number of tokens per text in a pass that needs 'tokens': few different lengths, little padding,
 * and the total number of rows divisible by tp. */
static int64_t window_for(const struct generator *g, int64_t tokens)
{
    int64_t unit = 1;

    while (unit * 8 <= tokens)
        unit *= 2;
    if (tokens > 1)
        tokens = round_up(tokens, unit < 8 ? 8 : unit);
    return g->config.texts % g->parallel->layout.tp == 0 ? tokens
                                                         : round_up(tokens, g->parallel->layout.tp);
}

/* --- Set-up ---------------------------------------------------------------------------------- */

static int prepare_window(struct generator *g, struct window *w, struct error *err)
{
    struct model_batch none;

    w->tokens = model_facts(w->model).sizes->sequence;
    w->bytes = model_batch_lay_out(model_facts(w->model).sizes, NULL, &none);
    w->host = device_host_allocate(g->device, w->bytes, err);
    if (!w->host)
        return -1;
    memset(w->host, 0, w->bytes);
    model_batch_lay_out(model_facts(w->model).sizes, w->host, &w->batch);
    return 0;
}

static void clear_window(struct generator *g, struct window *w)
{
    device_host_release(g->device, w->host);
    model_destroy(w->model);
    memset(w, 0, sizeof(*w));
}

static int create_model(struct generator *g, struct error *err)
{
    struct model_config *c = &g->config.model;

    c->micro_batch = g->config.texts;
    c->network.shape.sequence = window_for(g, 1);
    c->decoding.cache = round_up(window_for(g, g->config.longest), 64);
    c->network.hidden_dropout = c->network.attention_dropout = 0;
    c->recompute = RECOMPUTE_NONE;
    c->documents = 0;
    c->split.chunks = 1;
    if (c->bucket_elements == 0)
        c->bucket_elements = 40000000;
    g->step.model = model_create(c, g->parallel, g->device, 1, err);
    if (!g->step.model)
        return -1;
    g->stream = model_facts(g->step.model).stream;
    return prepare_window(g, &g->step, err);
}

/* Allocate logits and candidates on the stage with the output layer, and tokens on all stages. */
static int create_buffers(struct generator *g, struct error *err)
{
    const struct model_sizes *z = model_facts(g->step.model).sizes;
    size_t logits = (size_t)(z->samples * z->vocabulary) * sizeof(float);
    size_t tokens = (size_t)z->samples * sizeof(int32_t), offers;
    struct operation widen = {
        .kind = OPERATION_CONVERT,
        .convert = {z->samples * z->vocabulary, g->config.model.numerics.type, TYPE_FP32, 0}};

    g->picked = device_allocate(g->device, tokens, err);
    g->host_picked = g->picked ? device_host_allocate(g->device, tokens, err) : NULL;
    if (!g->host_picked)
        return -1;
    if (!parallel_last_stage(g->parallel))
        return 0;
    g->width = sampler_width(&g->config.sampling, z->vocabulary);
    offers = (size_t)(z->samples * g->width) * sizeof(struct candidate);
    g->logits = device_host_allocate(g->device, logits, err);
    g->host_offers =
        g->logits ? device_host_allocate(g->device, offers * (size_t)g->parallel->layout.tp, err)
                  : NULL;
    if (!g->host_offers)
        return -1;
    if (g->parallel->layout.tp > 1) {
        g->offers = device_allocate(g->device, offers, err);
        g->all_offers =
            g->offers ? device_allocate(g->device, offers * (size_t)g->parallel->layout.tp, err)
                      : NULL;
        if (!g->all_offers)
            return -1;
    }
    if (g->config.model.numerics.type == TYPE_FP32)
        return 0;
    g->wide = device_allocate(g->device, logits, err);
    g->widen = g->wide ? plan_create(g->device, &widen, err) : NULL;
    return g->widen ? 0 : -1;
}

/* For the logits of all tensor-parallel ranks, if they are kept. */
static int create_logits(struct generator *g, struct error *err)
{
    const struct model_sizes *z = model_facts(g->step.model).sizes;
    int64_t tp = g->parallel->layout.tp;
    size_t bytes = (size_t)(tp * z->samples * z->vocabulary) * sizeof(float);

    if (!g->config.logits || tp == 1 || !parallel_last_stage(g->parallel))
        return 0;
    g->all_logits = device_allocate(g->device, bytes, err);
    g->host_all_logits = g->all_logits ? device_host_allocate(g->device, bytes, err) : NULL;
    return g->host_all_logits ? 0 : -1;
}

struct generator *generator_create(const struct generator_config *config,
                                   const struct parallel *parallel, struct device *device,
                                   struct error *err)
{
    struct generator *g = xcalloc(1, sizeof(*g));

    g->config = *config;
    g->parallel = parallel;
    g->device = device;
    if (create_model(g, err) < 0 || create_buffers(g, err) < 0 || create_logits(g, err) < 0) {
        generator_destroy(g);
        return NULL;
    }
    return g;
}

void generator_destroy(struct generator *g)
{
    if (!g)
        return;
    plan_destroy(g->widen);
    clear_window(g, &g->prompt);
    clear_window(g, &g->step);
    device_release(g->device, g->wide);
    device_release(g->device, g->all_logits);
    device_release(g->device, g->offers);
    device_release(g->device, g->all_offers);
    device_release(g->device, g->picked);
    device_host_release(g->device, g->logits);
    device_host_release(g->device, g->host_all_logits);
    device_host_release(g->device, g->host_offers);
    device_host_release(g->device, g->host_picked);
    free(g);
}

struct model *generator_model(struct generator *g)
{
    return g->step.model;
}

int generator_start(struct generator *g, struct error *err)
{
    if (model_adopt(g->step.model, err) < 0)
        return -1;
    model_release_gradients(g->step.model);
    return 0;
}

struct generator_times generator_times(const struct generator *g)
{
    return g->times;
}

/* --- A forward pass -------------------------------------------------------------------------- */

/* Write the tokens of each text from 'from' on (with 'last_only' only its last one); the rest of
 * the window is padding. Returns the length of the longest text in this pass. */
static int64_t fill_batch(struct generator *g, struct window *w, const struct text *texts,
                          int64_t count, int last_only)
{
    const struct model_batch *b = &w->batch;
    int64_t cache = model_facts(w->model).sizes->cache, longest = 1;
    int64_t window = model_facts(w->model).sizes->window;

    for (int64_t t = 0; t < g->config.texts; t++) {
        const struct text *text = t < count && texts[t].finish == FINISH_NOT ? &texts[t] : NULL;
        int64_t from = text && last_only ? text->length - 1 : 0;
        int64_t tokens = text ? text->length - from : 0, row = t * w->tokens;

        for (int64_t i = 0; i < w->tokens; i++) {
            int there = i < tokens;

            b->tokens[row + i] = there ? text->ids[from + i] : 0;
            b->positions[row + i] = there ? (int32_t)(from + i) : 0;
            if (window > 0)
                b->window_start[row + i] =
                    there && from + i >= window ? (int32_t)(from + i - window + 1) : 0;
            b->cache_row[row + i] = there ? (int32_t)(t * cache + from + i) : -1;
        }
        b->last[t] = (int32_t)(row + (tokens > 0 ? tokens - 1 : 0));
        if (text && text->length > longest)
            longest = text->length;
    }
    return longest;
}

/* Receive the activations of the previous stage, or send this stage's to the next. */
static void pass_on(struct generator *g, struct model *m, int send)
{
    const struct model_sizes *z = model_facts(m).sizes;
    struct comm_message message = {
        .peer = (int)g->parallel->at.pp + (send ? 1 : -1),
        .send = send,
        .buffer = send ? model_output(m, 0, 0) : model_facts(m).input,
        .count = (size_t)(z->part_rows * z->hidden),
        .type = g->config.model.numerics.type,
    };

    comm_exchange(g->parallel->pipeline, g->stream, &message, 1);
}

static int wait(struct generator *g, struct error *err)
{
    if (device_stream_wait(g->stream, g->config.deadline, err) < 0)
        return -1;
    return comm_check(g->parallel->comm, err);
}

/* Choose this rank's candidates for all texts from the logits in host memory. */
static void make_offers(struct generator *g, const struct text *texts, int64_t count)
{
    const struct model_sizes *z = model_facts(g->step.model).sizes;
    struct range tokens = range_vocabulary(&g->parallel->layout, &g->parallel->at,
                                           g->config.model.padded_vocabulary, g->config.vocabulary);

    for (int64_t t = 0; t < z->samples; t++)
        sampler_offer(&g->config.sampling, g->logits + t * z->vocabulary,
                      t < count && texts[t].finish == FINISH_NOT ? tokens.count : 0, tokens.first,
                      t < count ? texts[t].number : 0, t < count ? texts[t].length : 0,
                      g->host_offers + t * g->width, g->width);
}

/* Gather the candidates of all tensor-parallel ranks: (ranks, texts, width). */
static int gather_offers(struct generator *g, struct error *err)
{
    size_t ranks = (size_t)g->parallel->layout.tp, count = (size_t)(g->config.texts * g->width);
    size_t bytes = count * sizeof(struct candidate);

    if (ranks == 1)
        return 0;
    device_copy(g->stream, g->offers, g->host_offers, bytes, COPY_TO_DEVICE);
    comm_all_gather(g->parallel->tensor, g->stream, g->offers, g->all_offers, 2 * count, TYPE_FP64);
    device_copy(g->stream, g->host_offers, g->all_offers, ranks * bytes, COPY_TO_HOST);
    return wait(g, err);
}

/* Keep a row of logits for every unfinished text. 'logits' are this rank's, on the device. */
static int keep_logits(struct generator *g, const float *logits, const struct text *texts,
                       int64_t count, struct error *err)
{
    const struct model_sizes *z = model_facts(g->step.model).sizes;
    int64_t tp = g->parallel->layout.tp, vocabulary = g->config.model.network.shape.vocabulary;
    int64_t part = z->samples * z->vocabulary;
    const float *all = tp > 1 ? g->host_all_logits : g->logits;

    if (tp > 1) {
        comm_all_gather(g->parallel->tensor, g->stream, logits, g->all_logits, (size_t)part,
                        TYPE_FP32);
        device_copy(g->stream, g->host_all_logits, g->all_logits,
                    (size_t)(tp * part) * sizeof(float), COPY_TO_HOST);
        if (wait(g, err) < 0)
            return -1;
    }
    for (int64_t t = 0; t < count; t++) {
        if (!texts[t].logits || texts[t].finish != FINISH_NOT)
            continue;
        for (int64_t r = 0, at = 0; r < tp && at < vocabulary; r++, at += z->vocabulary) {
            int64_t left = vocabulary - at;

            memcpy(texts[t].logits + (texts[t].length - 1) * vocabulary + at,
                   all + r * part + t * z->vocabulary,
                   (size_t)(left < z->vocabulary ? left : z->vocabulary) * sizeof(*all));
        }
    }
    return 0;
}

/* Put one text's candidates of all ranks next to each other and pick a token. */
static int64_t pick(struct generator *g, const struct text *text, int64_t t,
                    struct candidate *together)
{
    int64_t ranks = g->parallel->layout.tp;

    for (int64_t r = 0; r < ranks; r++)
        memcpy(together + r * g->width, g->host_offers + (r * g->config.texts + t) * g->width,
               (size_t)g->width * sizeof(*together));
    return sampler_pick(&g->config.sampling, together, ranks * g->width, text->number,
                        text->length);
}

/* On the last stage: from logits to tokens in host_picked, -1 for texts that need none. */
static int choose(struct generator *g, struct window *w, const struct text *texts, int64_t count,
                  struct error *err)
{
    const struct model_sizes *z = model_facts(w->model).sizes;
    const void *logits = model_facts(w->model).logits;
    struct candidate *together;
    int rc = 0;

    if (g->widen) {
        run_convert(g->widen, g->stream, &(struct convert_operands){logits, g->wide});
        logits = g->wide;
    }
    device_copy(g->stream, g->logits, logits, (size_t)(z->samples * z->vocabulary) * sizeof(float),
                COPY_TO_HOST);
    if (wait(g, err) < 0 || (g->config.logits && keep_logits(g, logits, texts, count, err) < 0))
        return -1;
    make_offers(g, texts, count);
    if (gather_offers(g, err) < 0)
        return -1;
    together = xmalloc((size_t)(g->parallel->layout.tp * g->width) * sizeof(*together));
    for (int64_t t = 0; t < g->config.texts && rc == 0; t++) {
        int64_t id = -1;

        if (t < count && texts[t].finish == FINISH_NOT) {
            id = pick(g, &texts[t], t, together);
            if (id < 0) {
                error_set(err, "the model's logits are NaN for every token: its weights are "
                               "damaged or overflow their data type");
                rc = error_append(err, "; use other weights (--load), or drop --bf16 or --fp16");
            }
        }
        g->host_picked[t] = (int32_t)id;
    }
    free(together);
    return rc;
}

/* Send the tokens picked by the last stage to all stages. */
static int share(struct generator *g, struct error *err)
{
    size_t bytes = (size_t)g->config.texts * sizeof(int32_t);
    int last = (int)g->parallel->layout.pp - 1;

    if (last == 0)
        return 0;
    if (parallel_last_stage(g->parallel))
        device_copy(g->stream, g->picked, g->host_picked, bytes, COPY_TO_DEVICE);
    comm_broadcast(g->parallel->pipeline, g->stream, g->picked, (size_t)g->config.texts, TYPE_INT32,
                   last);
    device_copy(g->stream, g->host_picked, g->picked, bytes, COPY_TO_HOST);
    return wait(g, err);
}

int64_t text_rows(const struct text *text)
{
    return text->finish == FINISH_STOP ? text->length : text->length - 1;
}

static void append(struct generator *g, struct text *text, int32_t id)
{
    /* The rest of a prompt that is read token by token. */
    if (text->length < text->prompt) {
        text->length++;
        return;
    }
    for (int i = 0; i < g->config.stop_count; i++)
        if (g->config.stops[i] == id)
            text->finish = FINISH_STOP;
    if (text->finish == FINISH_STOP)
        return;
    text->ids[text->length++] = id;
    if (text->length >= text->limit)
        text->finish = FINISH_LENGTH;
}

/* One pass: generate one token for every unfinished text. */
static int run_pass(struct generator *g, struct window *w, struct text *texts, int64_t count,
                    int last_only, struct error *err)
{
    int64_t longest = fill_batch(g, w, texts, count, last_only);

    device_copy(g->stream, model_batch(w->model, 0, 0)->tokens, w->host, w->bytes, COPY_TO_DEVICE);
    if (!parallel_first_stage(g->parallel))
        pass_on(g, w->model, 0);
    model_extend(w->model, longest);
    if (!parallel_last_stage(g->parallel))
        pass_on(g, w->model, 1);
    else if (choose(g, w, texts, count, err) < 0)
        return -1;
    if (share(g, err) < 0)
        return -1;
    for (int64_t t = 0; t < count; t++)
        if (texts[t].finish == FINISH_NOT)
            append(g, &texts[t], g->host_picked[t]);
    return 0;
}

/* --- A round of texts ------------------------------------------------------------------------ */

static int64_t unfinished(const struct text *texts, int64_t count)
{
    int64_t left = 0;

    for (int64_t t = 0; t < count; t++)
        left += texts[t].finish == FINISH_NOT;
    return left;
}

/* Run the prompts of all texts in one pass. The model is kept for prompts of similar length. */
static int run_prompts(struct generator *g, struct text *texts, int64_t count, struct error *err)
{
    int64_t longest = 1, tokens;

    for (int64_t t = 0; t < count; t++) {
        texts[t].length = texts[t].prompt;
        texts[t].finish = texts[t].length >= texts[t].limit ? FINISH_LENGTH : FINISH_NOT;
        longest = texts[t].length > longest ? texts[t].length : longest;
        g->times.prompt_tokens += texts[t].length;
    }
    tokens = window_for(g, longest);
    if (tokens == g->step.tokens)
        return run_pass(g, &g->step, texts, count, 0, err);
    if (g->prompt.tokens != tokens) {
        clear_window(g, &g->prompt);
        g->prompt.model = model_create_pass(g->step.model, tokens, err);
        if (!g->prompt.model || prepare_window(g, &g->prompt, err) < 0)
            return -1;
    }
    return run_pass(g, &g->prompt, texts, count, 0, err);
}

/* Run the prompts of all texts token by token, until the longest has been read. */
static int read_prompts(struct generator *g, struct text *texts, int64_t count, struct error *err)
{
    int64_t longest = 1;

    for (int64_t t = 0; t < count; t++) {
        texts[t].length = 1;
        texts[t].finish = FINISH_NOT;
        longest = texts[t].prompt > longest ? texts[t].prompt : longest;
        g->times.prompt_tokens += texts[t].prompt;
    }
    for (int64_t i = 0; i < longest; i++)
        if (run_pass(g, &g->step, texts, count, 1, err) < 0)
            return -1;
    return 0;
}

int generator_run(struct generator *g, struct text *texts, int64_t count,
                  void (*step)(void *context), void *context, struct error *err)
{
    double began = clock_now(), prompted;
    int64_t left;

    if ((g->config.logits ? read_prompts : run_prompts)(g, texts, count, err) < 0)
        return -1;
    prompted = clock_now();
    g->times.prompt_seconds += prompted - began;
    if (step)
        step(context);
    while ((left = unfinished(texts, count)) > 0) {
        if (run_pass(g, &g->step, texts, count, 1, err) < 0)
            return -1;
        g->times.tokens += left;
        if (step)
            step(context);
    }
    g->times.seconds += clock_now() - prompted;
    return 0;
}
