/* SPDX-License-Identifier: Apache-2.0 */
#include "fill_mask_private.h"
#include "base/core/half.h"
#include "prompts.h"
#include "weights.h"
#include "base/core/xmalloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 5 };

struct fill_mask {
    const struct fill_mask_options *o;
    struct origin origin;
    struct ranks ranks;
    struct tokenizer *tokenizer;
    struct special_ids ids;
    struct masked_text *texts;
    int64_t count, longest, most; /* texts; tokens and masks of one */
    struct model *model;
    char *batch; /* pinned, as model_batch_lay_out lays it out */
    struct model_batch host;
    size_t bytes;
    struct step_state *state; /* pinned */
    char *logits;             /* pinned; (masks, vocabulary) */
};

void fill_mask_default(struct fill_mask_options *o)
{
    memset(o, 0, sizeof(*o));
    generate_default(&o->base);
    o->base.top_k = SHOWN;
    o->mask_id = -1;
}

/* --- Texts ----------------------------------------------------------------------------------- */

static int check_text(const struct fill_mask *f, const struct masked_text *t, struct error *err)
{
    const struct model_config *c = &f->origin.model;
    int64_t places = c->network.position == POSITION_LEARNED
                         ? c->network.positions - c->network.position_offset
                         : c->network.positions;

    if (t->mask_count == 0 && !f->o->pseudo_perplexity)
        return error_set_code(err, ERROR_USAGE,
                              "the prompt \"%.60s\" has no %s; write %s where a token is missing",
                              t->text, f->ids.mask_text, f->ids.mask_text);
    if (t->mask_count > 0 && f->o->pseudo_perplexity)
        return error_set_code(err, ERROR_USAGE,
                              "the text \"%.60s\" has a %s; remove it: the pseudo-perplexity masks "
                              "every token itself",
                              t->text, f->ids.mask_text);
    if (t->count > places)
        return error_set_code(err, ERROR_USAGE,
                              "the prompt \"%.60s\" has %" PRId64
                              " tokens, but the model has %" PRId64 " positions; shorten it",
                              t->text, t->count, places);
    return 0;
}

static int make_texts(struct fill_mask *f, const struct lines *lines, struct error *err)
{
    struct encoder *encoder = encoder_create(f->tokenizer, 1 << 20, err);
    int rc = encoder ? 0 : -1;

    f->texts = xcalloc(lines->count, sizeof(*f->texts));
    if (rc == 0)
        encoder_keep_spaces(encoder); /* the text after a mask begins with one */
    for (size_t i = 0; i < lines->count && rc == 0; i++) {
        struct masked_text *t = &f->texts[f->count++];

        rc = masked_text_make(t, encoder, f->tokenizer, &f->ids, lines->items[i], err);
        if (rc == 0)
            rc = check_text(f, t, err);
        f->longest = t->count > f->longest ? t->count : f->longest;
        f->most = t->mask_count > f->most ? t->mask_count : f->most;
    }
    encoder_destroy(encoder);
    return rc;
}

static int read_texts(struct fill_mask *f, struct error *err)
{
    struct lines lines = {0};
    int rc = prompts_lines(&lines, &f->o->base, err);

    if (rc == 0) {
        f->tokenizer = prompts_tokenizer(&f->o->base, &f->origin, err);
        rc = f->tokenizer ? special_ids_find(&f->ids, f->tokenizer, f->o->mask_id, err) : -1;
    }
    if (rc == 0 && f->ids.mask >= f->origin.model.network.shape.vocabulary) {
        error_set_code(err, ERROR_USAGE,
                       "the mask token %" PRId64 " is not in the vocabulary of %lld tokens",
                       f->ids.mask, (long long)f->origin.model.network.shape.vocabulary);
        rc = error_append(err, "; give the id of the mask token with --mask-id");
    }
    if (rc == 0)
        rc = make_texts(f, &lines, err);
    lines_clear(&lines);
    return rc;
}

/* --- The model ------------------------------------------------------------------------------- */

static int open_model(struct fill_mask *f, struct error *err)
{
    struct model_config *c = &f->origin.model;
    const struct model_sizes *z;

    c->micro_batch = 1;
    c->split.chunks = 1;
    c->network.shape.sequence = f->longest;
    c->masked_max = f->most > 0 ? f->most : 1;
    c->network.hidden_dropout = c->network.attention_dropout = 0;
    c->padded_vocabulary = vocabulary_padded(c->network.shape.vocabulary, 128, 1);
    f->model = model_create(c, &f->ranks.parallel, f->ranks.device, 1, err);
    if (!f->model ||
        weights_load(f->o->base.load, &f->origin, f->model, &f->ranks.parallel, f->ranks.device,
                     err) < 0 ||
        model_adopt(f->model, err) < 0)
        return -1;
    z = model_facts(f->model).sizes;
    f->bytes = model_batch_lay_out(z, NULL, &f->host);
    f->batch = device_host_allocate(f->ranks.device, f->bytes, err);
    f->state = device_host_allocate(f->ranks.device, sizeof(*f->state), err);
    f->logits = device_host_allocate(
        f->ranks.device, (size_t)(z->head_rows * z->vocabulary) * type_size(c->numerics.type), err);
    if (!f->batch || !f->state || !f->logits)
        return -1;
    if (z->head_rows < z->masked)
        return error_set(err, "too many masks in one prompt; divide it into several prompts");
    model_batch_lay_out(z, f->batch, &f->host);
    return 0;
}

/* Positions after the text are padding, which no token sees. */
static void fill_batch(struct fill_mask *f, const struct masked_text *t, const int32_t *ids,
                       const int32_t *rows, int64_t count)
{
    const struct model_sizes *z = model_facts(f->model).sizes;
    const struct model_config *c = &f->origin.model;
    struct model_batch *b = &f->host;

    memset(f->batch, 0, f->bytes);
    for (int64_t i = 0; i < z->rows; i++) {
        b->tokens[i] = i < t->count ? ids[i] : 0;
        b->positions[i] = i < t->count ? (int32_t)(i + c->network.position_offset) : 0;
        b->row_index[i] = i;
        b->document_end[i] = (int32_t)t->count;
    }
    *b->logged = 1;
    for (int64_t i = 0; i < z->masked; i++) {
        b->selected[i] = i < count ? rows[i] : -1;
        b->targets[i] = i < count ? t->ids[rows[i]] : 0;
        b->weight[i] = i < count ? 1 : 0;
    }
}

/* A forward pass; the sum of the losses goes to state->loss. */
static int forward(struct fill_mask *f, const struct masked_text *t, const int32_t *ids,
                   const int32_t *rows, int64_t count, struct error *err)
{
    struct device_stream *stream = model_facts(f->model).stream;
    double deadline = 60.0 * f->o->base.timeout_minutes;

    fill_batch(f, t, ids, rows, count);
    memset(f->state, 0, sizeof(*f->state));
    f->state->loss_scale = 1;
    device_copy(stream, model_batch(f->model, 0, 0)->tokens, f->batch, f->bytes, COPY_TO_DEVICE);
    device_copy(stream, model_facts(f->model).state, f->state, sizeof(*f->state), COPY_TO_DEVICE);
    if (device_stream_wait(stream, deadline, err) < 0)
        return -1;
    model_forward(f->model, 0, 0, 1, 0);
    device_copy(stream, f->state, model_facts(f->model).state, sizeof(*f->state), COPY_TO_HOST);
    return device_stream_wait(stream, deadline, err);
}

/* --- Candidates ------------------------------------------------------------------------------ */

static double logit(const struct fill_mask *f, int64_t mask, int64_t token)
{
    int64_t at = mask * model_facts(f->model).sizes->vocabulary + token;

    switch (f->origin.model.numerics.type) {
    case TYPE_BF16:
        return bfloat_to_float(((const uint16_t *)(const void *)f->logits)[at]);
    case TYPE_FP16:
        return half_to_float(((const uint16_t *)(const void *)f->logits)[at]);
    default:
        return ((const float *)(const void *)f->logits)[at];
    }
}

/* The 'count' largest logits of a mask, then as probabilities. */
static void choose(const struct fill_mask *f, int64_t mask, struct guess *best, int64_t count)
{
    int64_t vocabulary = f->origin.model.network.shape.vocabulary;
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        best[i] = (struct guess){-INFINITY, 0};
    for (int64_t token = 0; token < vocabulary; token++) {
        double score = logit(f, mask, token);
        int64_t at = count;

        while (at > 0 && score > best[at - 1].score)
            at--;
        if (at == count)
            continue;
        memmove(best + at + 1, best + at, (size_t)(count - at - 1) * sizeof(*best));
        best[at] = (struct guess){score, (int32_t)token};
    }
    for (int64_t token = 0; token < vocabulary; token++)
        sum += exp(logit(f, mask, token) - best[0].score);
    for (int64_t i = count - 1; i >= 0; i--)
        best[i].score = exp(best[i].score - best[0].score) / sum;
}

static int fill_one(struct fill_mask *f, const struct masked_text *t, struct error *err)
{
    const struct fill_mask_show show = {f->tokenizer, &f->ids, stdout, f->o->base.json};
    const struct model_sizes *z = model_facts(f->model).sizes;
    int64_t most = f->origin.model.network.shape.vocabulary;
    int64_t count = f->o->base.top_k < most ? f->o->base.top_k : most;
    struct device_stream *stream = model_facts(f->model).stream;
    struct guess *best;
    int rc;

    if (forward(f, t, t->ids, t->masks, t->mask_count, err) < 0)
        return -1;
    device_copy(stream, f->logits, model_facts(f->model).logits,
                (size_t)(z->head_rows * z->vocabulary) * type_size(f->origin.model.numerics.type),
                COPY_TO_HOST);
    if (device_stream_wait(stream, 60.0 * f->o->base.timeout_minutes, err) < 0)
        return -1;
    best = xcalloc((size_t)(t->mask_count * count), sizeof(*best));
    for (int64_t mask = 0; mask < t->mask_count; mask++)
        choose(f, mask, best + mask * count, count);
    rc = fill_mask_show(&show, t, best, count, err);
    free(best);
    return rc;
}

/* Mask every token but those at begin and end in turn: the sum of their losses. */
static int score_one(struct fill_mask *f, const struct masked_text *t, double *loss, int64_t *count,
                     struct error *err)
{
    int32_t *ids = xcalloc((size_t)t->count, sizeof(*ids));
    int rc = 0;

    *loss = 0;
    *count = 0;
    for (int64_t i = 0; i < t->count && rc == 0; i++) {
        int32_t row = (int32_t)i;

        if ((i == 0 && t->ids[i] == f->ids.begin) || (i == t->count - 1 && t->ids[i] == f->ids.end))
            continue;
        memcpy(ids, t->ids, (size_t)t->count * sizeof(*ids));
        ids[i] = (int32_t)f->ids.mask;
        rc = forward(f, t, ids, &row, 1, err);
        *loss += f->state->loss;
        ++*count;
    }
    free(ids);
    return rc;
}

static int score_all(struct fill_mask *f, struct error *err)
{
    double total = 0, loss;
    int64_t tokens = 0, count;

    for (int64_t i = 0; i < f->count; i++) {
        if (score_one(f, &f->texts[i], &loss, &count, err) < 0)
            return -1;
        total += loss;
        tokens += count;
        if (f->o->base.json)
            printf("{\"tokens\": %" PRId64 ", \"loss\": %.9g, \"pseudo_perplexity\": %.9g}\n",
                   count, loss / (double)count, exp(loss / (double)count));
        else
            printf("%12.4f %s\n", exp(loss / (double)count), f->texts[i].text);
    }
    if (!f->o->base.json)
        printf("pseudo-perplexity of %" PRId64 " tokens: %.4f (loss %.6f, %.6f bits)\n", tokens,
               exp(total / (double)tokens), total / (double)tokens, total / (double)tokens / M_LN2);
    return 0;
}

static int run(struct fill_mask *f, const struct world *world, struct error *err)
{
    const struct generate_options *o = &f->o->base;
    struct model_config *c = &f->origin.model;
    struct ranks_config config = {
        .device = (enum device_choice)o->device,
        .threads = o->threads,
        .deadline = 60.0 * o->timeout_minutes,
        .layout = {1, 1, 1, 1},
    };
    int rc = 0;

    c->numerics.type = config.type = o->bf16 ? TYPE_BF16 : o->fp16 ? TYPE_FP16 : TYPE_FP32;
    if (read_texts(f, err) < 0 || ranks_open(&f->ranks, &config, world, err) < 0 ||
        open_model(f, err) < 0)
        return -1;
    if (f->o->pseudo_perplexity)
        return score_all(f, err);
    for (int64_t i = 0; i < f->count && rc == 0; i++)
        rc = fill_one(f, &f->texts[i], err);
    return rc;
}

static void clear(struct fill_mask *f)
{
    device_host_release(f->ranks.device, f->batch);
    device_host_release(f->ranks.device, f->state);
    device_host_release(f->ranks.device, f->logits);
    model_destroy(f->model);
    for (int64_t i = 0; i < f->count; i++)
        masked_text_clear(&f->texts[i]);
    free(f->texts);
    tokenizer_destroy(f->tokenizer);
    ranks_close(&f->ranks);
}

int fill_mask_run(const struct fill_mask_options *options, const struct world *world,
                  struct error *err)
{
    struct fill_mask f = {.o = options};
    int rc;

    if (world->size > 1) {
        error_set_code(err, ERROR_USAGE,
                       "fill-mask runs in one process; start it without srun or mpirun");
        return world_say_once(0, err);
    }
    if (origin_read(&f.origin, options->base.load, err) < 0)
        return -1;
    if (!f.origin.model.network.masked)
        return error_set_code(err, ERROR_USAGE,
                              "%s contains a causal language model, which has no masks to fill; "
                              "use megatron generate",
                              options->base.load);
    rc = run(&f, world, err);
    clear(&f);
    return rc;
}
