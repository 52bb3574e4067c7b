/* SPDX-License-Identifier: Apache-2.0 */
#include "batches.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>

/* A micro-batch in pinned host memory. */
struct host_batch {
    char *memory;
    struct model_batch batch;
    struct device_event *copied; /* to the device, for the last chunk that needed it */
    int64_t micro;               /* number of the micro-batch; -1: none */
};

/* A staging buffer in device memory. */
struct staging {
    void *memory;
    struct device_event *filled, *emptied;
};

struct batches {
    struct model *model;
    const struct model_config *config;
    const struct parallel *parallel;
    struct device *device;
    struct device_stream *compute, *copies;
    double deadline;
    size_t bytes;
    struct host_batch *host;
    int host_count;
    struct staging staging[MODEL_STAGED];
    int64_t given;
    struct batches_tokens tokens;
};

static int create_host(struct batches *b, struct error *err)
{
    const struct model_sizes *sizes = model_facts(b->model).sizes;

    b->host = xcalloc((size_t)b->host_count, sizeof(*b->host));
    for (int i = 0; i < b->host_count; i++) {
        struct host_batch *host = &b->host[i];

        b->bytes = model_batch_lay_out(sizes, NULL, &host->batch);
        host->memory = device_host_allocate(b->device, b->bytes, err);
        host->copied = device_event_create(b->device, 0);
        if (!host->memory)
            return -1;
        model_batch_lay_out(sizes, host->memory, &host->batch);
    }
    return 0;
}

struct batches *batches_create(struct model *model, const struct model_config *config,
                               const struct parallel *parallel, struct device *device, int ahead,
                               double deadline, struct error *err)
{
    struct batches *b = xcalloc(1, sizeof(*b));

    b->model = model;
    b->config = config;
    b->parallel = parallel;
    b->device = device;
    b->compute = model_facts(model).stream;
    b->deadline = deadline;
    b->host_count = ahead + 2;
    b->copies = device_stream_create(device, 1);
    for (int i = 0; i < MODEL_STAGED; i++)
        b->staging[i] =
            (struct staging){model_facts(model).staged[i], device_event_create(device, 0),
                             device_event_create(device, 0)};
    if (create_host(b, err) < 0) {
        batches_destroy(b);
        return NULL;
    }
    batches_begin(b);
    return b;
}

void batches_destroy(struct batches *b)
{
    struct error ignored;

    if (!b)
        return;
    /* Host memory must not be freed while it is copied. */
    device_stream_wait(b->copies, b->deadline, &ignored);
    for (int i = 0; i < MODEL_STAGED; i++) {
        device_event_destroy(b->staging[i].filled);
        device_event_destroy(b->staging[i].emptied);
    }
    device_stream_destroy(b->copies);
    for (int i = 0; b->host && i < b->host_count; i++) {
        device_event_destroy(b->host[i].copied);
        device_host_release(b->device, b->host[i].memory);
    }
    free(b->host);
    free(b);
}

void batches_begin(struct batches *b)
{
    for (int i = 0; i < b->host_count; i++)
        b->host[i].micro = -1;
    b->tokens = (struct batches_tokens){0};
}

struct batches_tokens batches_tokens(const struct batches *b)
{
    return b->tokens;
}

/* First position of the document that each position of the batch belongs to, and one past its last.
 */
static void document_bounds(const struct batch *batch, int64_t sequence, int64_t total,
                            int32_t *start, int32_t *end)
{
    for (int32_t d = 0; d < batch->document_count; d++)
        for (int64_t i = batch->document_offsets[d];
             i < batch->document_offsets[d + 1] && i < total; i++) {
            int64_t sample = i / sequence * sequence, first = batch->document_offsets[d];
            int64_t last = batch->document_offsets[d + 1] - sample;

            start[i] = (int32_t)(first > sample ? first - sample : 0);
            end[i] = (int32_t)(last < sequence ? last : sequence);
        }
}

struct fill {
    const struct batches *batches;
    const struct batch *batch;
    struct model_batch *out;
    int64_t first_sample; /* of the micro-batch within the global batch */
    double share;         /* of a token in the gradient of the step */
    double pair_share;    /* of a sentence pair */
    const int32_t *start, *end;
    double trained;   /* tokens so far */
    int64_t selected; /* tokens to predict so far, of a masked model */
    int32_t strange;  /* a token type that the model does not have, or 0 */
};

/* The first position that a token sees through a window, not before its document. */
static int32_t window_start(int64_t window, int64_t position, int32_t document)
{
    int64_t first = position - window + 1;

    return first > document ? (int32_t)first : document;
}

/* Row 'row' of sample 'sample' on this rank holds token 'position' of the sample. */
static void fill_row(struct fill *f, int64_t sample, int64_t row, int64_t position)
{
    const struct model_sizes *z = model_facts(f->batches->model).sizes;
    int64_t sequence = f->batches->config->network.shape.sequence;
    int64_t samples = f->batches->config->micro_batch;
    int64_t from = sample * sequence + position, to = sample * z->sequence + row;
    int64_t slice = row / z->slice_rows;
    int64_t by_slice = (slice * samples + sample) * z->slice_rows + row % z->slice_rows;
    struct model_batch *out = f->out;

    out->tokens[to] = f->batch->tokens[from];
    out->positions[to] = f->batch->position_ids[from];
    f->trained += f->batch->loss_mask[from];
    if (z->masked == 0) {
        out->targets[to] = f->batch->labels[from];
        out->weight[to] = (float)(f->batch->loss_mask[from] * f->share);
    }
    out->row_index[to] = (f->first_sample + sample) * sequence + position;
    out->document_start[to] = f->start[from];
    out->slice_row_index[by_slice] = out->row_index[to];
    out->slice_document_start[by_slice] = out->document_start[to];
    if (z->window > 0)
        out->window_start[by_slice] =
            window_start(z->window, position, f->batches->config->documents ? f->start[from] : 0);
}

/* A row of the micro-batch within this rank's part under sequence parallelism; -1: not there. */
static int32_t part_row(const struct batches *b, int64_t row)
{
    const struct model_sizes *z = model_facts(b->model).sizes;
    struct range part = range_tensor(&b->parallel->layout, &b->parallel->at, z->rows);

    return row < part.first || row >= part.first + part.count ? -1 : (int32_t)(row - part.first);
}

/* The members of a row that only masked models have. Without packed documents every row sees what
 * the first row of its sample sees: all but padding. */
static void fill_masked_row(struct fill *f, int64_t sample, int64_t row, int64_t position)
{
    const struct model_sizes *z = model_facts(f->batches->model).sizes;
    const struct model_config *config = f->batches->config;
    int64_t begin = sample * config->network.shape.sequence, from = begin + position;
    int64_t to = sample * z->sequence + row, slice = row / z->slice_rows;
    int64_t by_slice = (slice * config->micro_batch + sample) * z->slice_rows + row % z->slice_rows;
    struct model_batch *out = f->out;

    out->document_end[to] = f->end[config->documents ? from : begin];
    out->slice_document_end[by_slice] = out->document_end[to];
    if (z->token_types) {
        int32_t type = f->batch->token_types ? f->batch->token_types[from] : 0;

        out->token_types[to] = type;
        if (type < 0 || type >= config->network.token_types)
            f->strange = type;
    }
    if (f->batch->loss_mask[from] == 0)
        return;
    if (f->selected < z->masked) {
        out->selected[f->selected] = part_row(f->batches, to);
        out->targets[f->selected] = f->batch->labels[from];
        out->weight[f->selected] = (float)(f->batch->loss_mask[from] * f->share);
    }
    f->selected++;
}

/* The pair of a sample, if its first token is on this context-parallel rank, and selected rows that
 * are not used. */
static int finish_masked(const struct fill *f, struct error *err)
{
    const struct batches *b = f->batches;
    const struct model_sizes *z = model_facts(b->model).sizes;
    struct model_batch *out = f->out;

    if (f->selected > z->masked) {
        error_set_code(err, ERROR_USAGE,
                       "a micro-batch has %lld tokens selected for prediction on this rank, but "
                       "memory was planned for %lld",
                       (long long)f->selected, (long long)z->masked);
        return error_append(err, "; raise --max-masked-tokens");
    }
    if (f->strange != 0) {
        error_set_code(err, ERROR_USAGE,
                       "the data has token type %d, but the model has %lld token types",
                       (int)f->strange, (long long)b->config->network.token_types);
        return error_append(err, "; raise --num-token-types");
    }
    for (int64_t i = f->selected; i < z->masked; i++) {
        out->selected[i] = -1;
        out->targets[i] = 0;
        out->weight[i] = 0;
    }
    for (int64_t i = 0; z->binary && i < z->samples; i++) {
        int32_t label = f->batch->binary ? f->batch->binary[i] : BATCH_IGNORE;
        int here = b->parallel->at.cp == 0;

        out->pair_row[i] = here ? part_row(b, i * z->sequence) : -1;
        out->pair_targets[i] = label < 0 ? 0 : label;
        out->pair_weight[i] = label < 0 || !here ? 0 : (float)f->pair_share;
    }
    return 0;
}

/* The share of each pair: the mean of the micro-batch, then of micro-batches. */
static double share_of_pairs(const struct batch *batch, int64_t samples, int64_t micros)
{
    int64_t labels = 0;

    for (int64_t i = 0; batch->binary && i < samples; i++)
        labels += batch->binary[i] >= 0;
    return labels > 0 ? 1 / (double)(labels * micros) : 0;
}

/* The share of a trained token in the gradient. In the logged loss all tokens of a step have the
 * same share, 1 / nominal, which is 'share' * 'logged'; if no token is masked, 'logged' is exactly
 * 1 and the sum needs no further factor. */
static double share_of_tokens(const struct batches *b, const struct batches_iteration *iteration,
                              const struct batch *batch, double *nominal, float *logged)
{
    int64_t total = b->config->micro_batch * b->config->network.shape.sequence;
    double micros = (double)(iteration->micros * b->parallel->layout.dp), trained = 0;

    *logged = 1;
    *nominal = batch->step_tokens > 0 ? batch->step_tokens : (double)total * micros;
    if (batch->step_tokens > 0 || iteration->per_token)
        return 1 / *nominal;
    for (int64_t i = 0; i < total; i++)
        trained += batch->loss_mask[i];
    *logged = (float)(trained / (double)total);
    return trained > 0 ? 1 / (trained * micros) : 0;
}

/* Micro-batch 'micro' of the step. */
static int fill_batch(struct batches *b, const struct batches_iteration *iteration, int64_t micro,
                      const struct batch *batch, struct model_batch *out, struct error *err)
{
    const struct model_sizes *z = model_facts(b->model).sizes;
    const struct layout *layout = &b->parallel->layout;
    int64_t samples = b->config->micro_batch, sequence = b->config->network.shape.sequence;
    int64_t total = samples * sequence;
    struct zigzag split = zigzag_split(sequence, layout->cp);
    int32_t *start = xcalloc((size_t)total * 2, sizeof(*start)), *end = start + total;
    struct fill f = {.batches = b,
                     .batch = batch,
                     .out = out,
                     .first_sample = (micro * layout->dp + b->parallel->at.dp) * samples,
                     .pair_share = share_of_pairs(batch, samples, iteration->micros * layout->dp),
                     .start = start,
                     .end = end};
    int rc = 0;

    document_bounds(batch, sequence, total, start, end);
    f.share = share_of_tokens(b, iteration, batch, &b->tokens.nominal, out->logged);
    for (int64_t sample = 0; sample < samples; sample++)
        for (int64_t row = 0; row < z->sequence; row++) {
            int64_t position = zigzag_position(&split, b->parallel->at.cp, row);

            fill_row(&f, sample, row, position);
            if (z->masked > 0)
                fill_masked_row(&f, sample, row, position);
        }
    if (z->masked > 0)
        rc = finish_masked(&f, err);
    b->tokens.trained += f.trained;
    free(start);
    return rc;
}

/* Micro-batch 'micro' in host memory; it is taken from the loader when first needed. */
static struct host_batch *host_batch_of(struct batches *b,
                                        const struct batches_iteration *iteration, int64_t micro,
                                        struct error *err)
{
    struct host_batch *host = &b->host[micro % b->host_count];
    struct batch batch;
    int rc;

    if (host->micro == micro)
        return host;
    if (device_event_wait(host->copied, b->deadline, err) < 0 ||
        batch_loader_next(iteration->loader, &batch, err) < 0)
        return NULL;
    rc = fill_batch(b, iteration, micro, &batch, &host->batch, err);
    batch_loader_release(iteration->loader, &batch);
    host->micro = micro;
    return rc < 0 ? NULL : host;
}

int batches_give(struct batches *b, const struct batches_iteration *iteration,
                 struct pipeline_item item, struct error *err)
{
    struct host_batch *host = host_batch_of(b, iteration, item.micro, err);
    struct staging *staging = &b->staging[b->given % MODEL_STAGED];

    if (!host)
        return -1;
    b->given++;
    device_event_follow(b->copies, staging->emptied);
    device_copy(b->copies, staging->memory, host->memory, b->bytes, COPY_TO_DEVICE);
    device_event_record(host->copied, b->copies);
    device_event_record(staging->filled, b->copies);
    device_event_follow(b->compute, staging->filled);
    device_copy(b->compute, model_batch(b->model, item.chunk, item.slot)->tokens, staging->memory,
                b->bytes, COPY_ON_DEVICE);
    device_event_record(staging->emptied, b->compute);
    return 0;
}
