/* SPDX-License-Identifier: Apache-2.0 */
#include "fill_mask_private.h"
#include "base/core/half.h"
#include "base/core/json_write.h"
#include "base/core/xmalloc.h"
#include "prompts.h"
#include "generator.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct fill_mask {
    const struct fill_mask_options *o;
    struct origin origin;
    struct ranks ranks;
    struct tokenizer *tokenizer;
    struct special_ids ids;
    struct lines lines;
    struct masked_text *texts;
    size_t count;
    size_t longest, most; /* tokens and masks of one text */
    struct model *model;
    char *batch; /* pinned, as model_batch_lay_out lays it out */
    struct model_batch host;
    size_t bytes;
    struct step_state *state; /* pinned */
    char *logits;             /* pinned; (masks, vocabulary) */
};

/* --- Texts ----------------------------------------------------------------------------------- */

static int check_text(const struct fill_mask *f, const struct masked_text *t, struct error *err)
{
    const struct model_config *c = &f->origin.model;
    int64_t places = c->network.position == POSITION_LEARNED
                         ? c->network.positions - c->network.position_offset
                         : c->network.positions;

    if (t->masks.count == 0 && !f->o->pseudo_perplexity)
        return error_set_code(err, ERROR_USAGE,
                              "the prompt \"%.60s\" has no %s; write %s where a token is missing",
                              t->text, f->ids.mask_text, f->ids.mask_text);
    if (t->masks.count > 0 && f->o->pseudo_perplexity)
        return error_set_code(err, ERROR_USAGE,
                              "the text \"%.60s\" has a %s; remove it: the pseudo-perplexity masks "
                              "every token itself",
                              t->text, f->ids.mask_text);
    if ((int64_t)t->ids.count > places)
        return error_set_code(err, ERROR_USAGE,
                              "the prompt \"%.60s\" has %zu tokens, but the model has %" PRId64
                              " positions; shorten it",
                              t->text, t->ids.count, places);
    return 0;
}

static int read_texts(struct fill_mask *f, struct error *err)
{
    int64_t vocabulary = f->origin.model.network.shape.vocabulary;
    struct encoder *encoder;
    int rc = 0;

    if (prompts_lines(&f->lines, &f->o->base, err) < 0)
        return -1;
    f->tokenizer = prompts_tokenizer(&f->o->base, &f->origin, err);
    if (!f->tokenizer || special_ids_find(&f->ids, f->tokenizer, f->o->mask_id, err) < 0)
        return -1;
    if (f->ids.mask >= vocabulary)
        return error_set_code(err, ERROR_USAGE,
                              "the mask token %" PRId64 " is not in the vocabulary of %" PRId64
                              " tokens; give the id of the mask token with --mask-id",
                              f->ids.mask, vocabulary);
    encoder = encoder_create(f->tokenizer, 1 << 20, err);
    if (!encoder)
        return -1;
    encoder_keep_spaces(encoder); /* the text after a mask begins with one */
    f->texts = xcalloc(f->lines.count, sizeof(*f->texts));
    for (; f->count < f->lines.count && rc == 0; f->count++) {
        struct masked_text *t = &f->texts[f->count];

        rc = masked_text_make(t, encoder, f->tokenizer, &f->ids, f->lines.items[f->count], err);
        if (rc == 0)
            rc = check_text(f, t, err);
        f->longest = t->ids.count > f->longest ? t->ids.count : f->longest;
        f->most = t->masks.count > f->most ? t->masks.count : f->most;
    }
    encoder_destroy(encoder);
    return rc;
}

/* --- The model ------------------------------------------------------------------------------- */

static int open_model(struct fill_mask *f, struct error *err)
{
    struct model_config *c = &f->origin.model;
    const struct model_sizes *z;

    c->micro_batch = 1;
    c->split.chunks = 1;
    c->network.shape.sequence = (int64_t)f->longest;
    c->masked_max = f->most > 0 ? (int64_t)f->most : 1;
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
    int64_t length = (int64_t)t->ids.count;
    const struct model_sizes *z = model_facts(f->model).sizes;
    const struct model_config *c = &f->origin.model;
    struct model_batch *b = &f->host;

    memset(f->batch, 0, f->bytes);
    for (int64_t i = 0; i < z->rows; i++) {
        b->tokens[i] = i < length ? ids[i] : 0;
        b->positions[i] = i < length ? (int32_t)(i + c->network.position_offset) : 0;
        b->row_index[i] = i;
        b->document_end[i] = (int32_t)length;
    }
    *b->logged = 1;
    for (int64_t i = 0; i < z->masked; i++) {
        b->selected[i] = i < count ? rows[i] : -1;
        b->targets[i] = i < count ? t->ids.items[rows[i]] : 0;
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

struct guess {
    double score;
    int32_t token;
};

/* The 'count' tokens with the largest logits of a mask, and their probabilities. */
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

/* The text with one token in place of a mask; other masks stay. */
static int decode(const struct fill_mask *f, const struct masked_text *t, size_t mask,
                  int32_t token, struct text_buffer *out, struct error *err)
{
    int64_t *ids = xcalloc(t->ids.count, sizeof(*ids));
    size_t count = 0, last = t->ids.count - 1;
    int rc;

    for (size_t i = 0; i <= last; i++) {
        int64_t id = (int32_t)i == t->masks.items[mask] ? token : t->ids.items[i];

        if (!(i == 0 && id == f->ids.begin) && !(i == last && id == f->ids.end))
            ids[count++] = id;
    }
    rc = tokenizer_decode(f->tokenizer, ids, count, out, err);
    free(ids);
    return rc;
}

static int show_guess(const struct fill_mask *f, const struct masked_text *t, size_t mask,
                      const struct guess *guess, struct json_writer *json, struct error *err)
{
    struct text_buffer word = {0}, sequence = {0};
    int64_t id = guess->token;
    int rc = -1;

    if (tokenizer_decode(f->tokenizer, &id, 1, &word, err) < 0 ||
        decode(f, t, mask, guess->token, &sequence, err) < 0)
        goto out;
    if (f->o->base.json) {
        json_open(json, NULL, '{');
        json_put_number(json, "score", guess->score, 9);
        json_put_integer(json, "token", id);
        json_put_text(json, "token_str", word.data, word.length);
        json_put_text(json, "sequence", sequence.data, sequence.length);
        json_close(json);
    } else {
        printf("%8.4f %8" PRId64 " %-16.*s %.*s\n", guess->score, id, (int)word.length,
               word.data ? word.data : "", (int)sequence.length,
               sequence.data ? sequence.data : "");
    }
    rc = 0;
out:
    text_buffer_clear(&word);
    text_buffer_clear(&sequence);
    return rc;
}

/* Print the best tokens of each mask, as JSON like transformers: a list of candidates, or with
 * several masks a list of lists. */
static int fill_one(struct fill_mask *f, const struct masked_text *t, struct error *err)
{
    const struct model_sizes *z = model_facts(f->model).sizes;
    struct json_writer json = {.stream = stdout, .spaced = true};
    int64_t most = f->origin.model.network.shape.vocabulary;
    int64_t count = f->o->base.top_k < most ? f->o->base.top_k : most;
    struct device_stream *stream = model_facts(f->model).stream;
    bool several = t->masks.count > 1, is_json = f->o->base.json;
    struct guess *best;
    int rc = 0;

    if (forward(f, t, t->ids.items, t->masks.items, (int64_t)t->masks.count, err) < 0)
        return -1;
    device_copy(stream, f->logits, model_facts(f->model).logits,
                (size_t)(z->head_rows * z->vocabulary) * type_size(f->origin.model.numerics.type),
                COPY_TO_HOST);
    if (device_stream_wait(stream, 60.0 * f->o->base.timeout_minutes, err) < 0)
        return -1;
    best = xcalloc((size_t)count, sizeof(*best));
    if (!is_json)
        printf("%s\n", t->text);
    else if (several)
        json_open(&json, NULL, '[');
    for (size_t mask = 0; mask < t->masks.count && rc == 0; mask++) {
        choose(f, (int64_t)mask, best, count);
        if (is_json)
            json_open(&json, NULL, '[');
        else if (several)
            printf("mask %zu:\n", mask + 1);
        for (int64_t i = 0; i < count && rc == 0; i++)
            rc = show_guess(f, t, mask, &best[i], &json, err);
        if (is_json)
            json_close(&json);
    }
    if (is_json && several)
        json_close(&json);
    putchar('\n');
    free(best);
    if (rc == 0 && ferror(stdout))
        rc = error_set_errno(err, errno, "cannot write the result");
    return rc;
}

/* Mask every token but those at begin and end in turn: the sum of their losses. */
static int score_one(struct fill_mask *f, const struct masked_text *t, double *loss, int64_t *count,
                     struct error *err)
{
    size_t length = t->ids.count;
    int32_t *ids = xcalloc(length, sizeof(*ids));
    int rc = 0;

    *loss = 0;
    *count = 0;
    for (size_t i = 0; i < length && rc == 0; i++) {
        const int32_t *own = t->ids.items;
        int32_t row = (int32_t)i;

        if ((i == 0 && own[i] == f->ids.begin) || (i == length - 1 && own[i] == f->ids.end))
            continue;
        memcpy(ids, own, length * sizeof(*ids));
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
    struct json_writer json = {.stream = stdout, .spaced = true};
    double total = 0, loss;
    int64_t tokens = 0, count;

    for (size_t i = 0; i < f->count; i++) {
        if (score_one(f, &f->texts[i], &loss, &count, err) < 0)
            return -1;
        total += loss;
        tokens += count;
        loss /= (double)count;
        if (f->o->base.json) {
            json_open(&json, NULL, '{');
            json_put_integer(&json, "tokens", count);
            json_put_number(&json, "loss", loss, 9);
            json_put_number(&json, "pseudo_perplexity", exp(loss), 9);
            json_close(&json);
            json_end_line(&json);
        } else {
            printf("%12.4f %s\n", exp(loss), f->texts[i].text);
        }
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
    for (size_t i = 0; i < f->count && rc == 0; i++)
        rc = fill_one(f, &f->texts[i], err);
    return rc;
}

static void clear(struct fill_mask *f)
{
    device_host_release(f->ranks.device, f->batch);
    device_host_release(f->ranks.device, f->state);
    device_host_release(f->ranks.device, f->logits);
    model_destroy(f->model);
    for (size_t i = 0; i < f->count; i++)
        masked_text_clear(&f->texts[i]);
    free(f->texts);
    lines_clear(&f->lines);
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
