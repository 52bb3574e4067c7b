/* SPDX-License-Identifier: Apache-2.0 */
/* One forward and backward pass of a masked language model in a Hugging Face directory, for
 * comparison with transformers (t/peers/masked).
 *
 *   masked-pass DIRECTORY BATCH OUT [cpu|cuda [fp32|bf16|fp16 [none|selective|full]]]
 *
 * BATCH has int32: samples, sequence; then tokens, labels (-1: not masked), positions and token
 * types, (samples, sequence) each; the length of each sample; the label of each sample's pair. OUT
 * gets the loss as a line of text, then the logits of the masked tokens and the gradients of all
 * parameters: a line "name rows cols" and as many floats. */
#include "base/core/half.h"
#include "run/exchange/hf.h"
#include "run/exchange/hf_config.h"
#include "run/exchange/hf_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct device *device;

static void stop(const char *what, const struct error *err)
{
    fprintf(stderr, "masked-pass: %s: %s\n", what, err->text);
    exit(1);
}

static int32_t *read_batch(const char *path, int64_t *samples, int64_t *sequence)
{
    FILE *f = fopen(path, "rb");
    int32_t head[2], *batch;
    size_t count;

    if (!f || fread(head, sizeof(*head), 2, f) != 2 || head[0] < 1 || head[1] < 1)
        exit(2);
    *samples = head[0];
    *sequence = head[1];
    count = (size_t)head[0] * ((size_t)head[1] * 4 + 2);
    batch = calloc(count, sizeof(*batch));
    if (!batch || fread(batch, sizeof(*batch), count, f) != count)
        exit(2);
    fclose(f);
    return batch;
}

/* One rank has all rows; the loss is the mean of the masked tokens plus the mean of the pairs. */
static int64_t fill(const struct model_sizes *z, const int32_t *batch, struct model_batch *b)
{
    int64_t n = z->rows, selected = 0, pairs = 0;
    const int32_t *labels = batch + n, *lengths = batch + 4 * n, *pair = lengths + z->samples;

    for (int64_t i = 0; i < n; i++) {
        b->tokens[i] = batch[i];
        b->positions[i] = batch[2 * n + i];
        b->row_index[i] = i;
        b->document_start[i] = 0;
        b->document_end[i] = lengths[i / z->sequence];
        if (z->token_types)
            b->token_types[i] = batch[3 * n + i];
        if (labels[i] >= 0) {
            b->selected[selected] = (int32_t)i;
            b->targets[selected++] = labels[i];
        }
    }
    *b->logged = 1;
    for (int64_t i = 0; i < z->masked; i++) {
        b->weight[i] = i < selected ? 1 / (float)selected : 0;
        if (i >= selected)
            b->selected[i] = -1, b->targets[i] = 0;
    }
    for (int64_t i = 0; i < z->samples; i++)
        pairs += pair[i] >= 0;
    for (int64_t i = 0; z->binary && i < z->samples; i++) {
        b->pair_row[i] = (int32_t)(i * z->sequence);
        b->pair_targets[i] = pair[i] < 0 ? 0 : pair[i];
        b->pair_weight[i] = pair[i] < 0 ? 0 : 1 / (float)pairs;
    }
    return selected;
}

static void give(struct model *m, void *to, const void *from, size_t bytes)
{
    struct error err;

    device_copy(model_facts(m).stream, to, from, bytes, COPY_TO_DEVICE);
    if (device_stream_wait(model_facts(m).stream, 600, &err) < 0)
        stop("copy", &err);
}

static void *fetch(struct model *m, const void *from, size_t bytes)
{
    struct error err;
    void *host = device_host_allocate(device, bytes, &err);

    if (!host)
        stop("memory", &err);
    device_copy(model_facts(m).stream, host, from, bytes, COPY_TO_HOST);
    if (device_stream_wait(model_facts(m).stream, 600, &err) < 0)
        stop("copy", &err);
    return host;
}

/* 'count' numbers of the model's type, as fp32. */
static void write_as_float(FILE *out, const void *from, enum device_type type, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint16_t half = type == TYPE_FP32 ? 0 : ((const uint16_t *)from)[i];
        float value = type == TYPE_FP32   ? ((const float *)from)[i]
                      : type == TYPE_BF16 ? bfloat_to_float(half)
                                          : half_to_float(half);

        fwrite(&value, sizeof(value), 1, out);
    }
}

static void write_gradients(FILE *out, struct model *m, const struct model_config *c)
{
    const struct parameters *p = model_facts(m).parameters;
    struct hf_map map;
    float *gradients = fetch(m, model_facts(m).gradients, (size_t)p->elements * sizeof(float));
    char theirs[HF_NAME];
    struct error err;

    if (hf_map_of(&c->network, &map, &err) < 0)
        stop("names", &err);
    for (int i = 0; i < p->count; i++) {
        const struct parameter *q = &p->list[i];

        hf_find_name(&map, q->name, theirs);
        fprintf(out, "%s %lld %lld\n", theirs, (long long)hf_true_rows(q), (long long)q->cols);
        fwrite(gradients + q->offset, sizeof(float), (size_t)(hf_true_rows(q) * q->cols), out);
    }
    device_host_release(device, gradients);
}

static void run(struct model *m, const struct model_config *c, const int32_t *batch, FILE *out)
{
    const struct model_sizes *z = model_facts(m).sizes;
    struct error err;
    struct model_batch host;
    size_t bytes = model_batch_lay_out(z, NULL, &host);
    char *memory = device_host_allocate(device, bytes, &err);
    struct step_state *state = device_host_allocate(device, sizeof(*state), &err), *after;
    int64_t selected;
    void *logits;

    if (!memory || !state)
        stop("memory", &err);
    memset(state, 0, sizeof(*state));
    state->loss_scale = 1;
    model_batch_lay_out(z, memory, &host);
    selected = fill(z, batch, &host);
    give(m, model_batch(m, 0, 0)->tokens, memory, bytes);
    give(m, model_facts(m).state, state, sizeof(*state));
    model_forward(m, 0, 0, 1, 0);
    logits = fetch(m, model_facts(m).logits,
                   (size_t)(z->head_rows * z->vocabulary) * type_size(c->numerics.type));
    after = fetch(m, model_facts(m).state, sizeof(*after));
    fprintf(out, "%.17g\nlogits %lld %lld\n", after->loss, (long long)selected,
            (long long)c->network.shape.vocabulary);
    for (int64_t i = 0; i < selected; i++)
        write_as_float(out,
                       (char *)logits + (size_t)(i * z->vocabulary) * type_size(c->numerics.type),
                       c->numerics.type, c->network.shape.vocabulary);
    give(m, model_facts(m).state, state, sizeof(*state));
    model_forward(m, 0, 0, 0, 0);
    model_backward(m, 0, 0, 0, NULL, NULL);
    write_gradients(out, m, c);
    device_host_release(device, logits);
    device_host_release(device, after);
    device_host_release(device, state);
    device_host_release(device, memory);
}

int main(int argc, char **argv)
{
    struct parallel parallel = {.layout = {1, 1, 1, 1}};
    struct model_config c;
    struct error err;
    const char *name = argc > 4 ? argv[4] : "cpu", *type = argc > 5 ? argv[5] : "fp32";
    const char *again = argc > 6 ? argv[6] : "none";
    int64_t samples, sequence;
    int32_t *batch;
    struct model *m;
    FILE *out;

    if (argc < 4 || hf_config_read(argv[1], &c, &err) < 0)
        stop("config", argc < 4 ? &(struct error){.text = "wrong arguments"} : &err);
    batch = read_batch(argv[2], &samples, &sequence);
    c.micro_batch = samples;
    c.network.shape.sequence = c.masked_max = sequence;
    c.numerics.type = strcmp(type, "bf16") == 0   ? TYPE_BF16
                      : strcmp(type, "fp16") == 0 ? TYPE_FP16
                                                  : TYPE_FP32;
    c.network.hidden_dropout = c.network.attention_dropout = 0;
    c.padded_vocabulary = (c.network.shape.vocabulary + 127) / 128 * 128;
    c.recompute = strcmp(again, "full") == 0        ? RECOMPUTE_FULL
                  : strcmp(again, "selective") == 0 ? RECOMPUTE_SELECTIVE
                                                    : RECOMPUTE_NONE;
    c.recompute_layers = c.network.shape.layers;
    device = device_open(name, &(struct device_options){.threads = 1}, &err);
    if (!device)
        stop("device", &err);
    m = model_create(&c, &parallel, device, 1, &err);
    if (!m || hf_load(argv[1], &c, m, device, &err) < 0 || model_adopt(m, &err) < 0)
        stop("model", &err);
    out = fopen(argv[3], "wb");
    if (!out)
        exit(2);
    run(m, &c, batch, out);
    fclose(out);
    free(batch);
    model_destroy(m);
    device_close(device);
    return 0;
}
