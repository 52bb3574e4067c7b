/* SPDX-License-Identifier: Apache-2.0 */
#include "masked.h"
#include "dataset_private.h"
#include "mt19937.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

enum { REMEMBERED = 16 }; /* steps */

struct masked {
    struct masked_config config;
    int64_t sequence_length;
    enum dataset_split split;
    uint32_t seed;
    struct indexed *corpus; /* NULL: mock data */
    struct dataset mock;
    struct blocks blocks;
    struct batching batching;
    int64_t *row_ends; /* with 'pack': by row, into batching.order; batches then are of rows */
    struct masking *masking;
    pthread_mutex_t lock; /* of what is below */
    int64_t epoch;        /* whose order is in 'order'; 0: none */
    uint32_t *order;
    struct remembered {
        int64_t number; /* of the step, from 1; 0: none */
        struct masked_step step;
    } steps[REMEMBERED];
};

/* --- Opening --------------------------------------------------------------------------------- */

/* Samples of mock data: an epoch of 8192 samples of the full length. */
static int make_mock(struct masked *m, struct error *err)
{
    enum { SAMPLES = 8192 };
    int32_t length = (int32_t)m->sequence_length - 1;
    struct blocks_state state = {0, 0};

    m->mock = (struct dataset){.split = m->split,
                               .sequence_length = m->sequence_length - 1,
                               .seed = m->seed,
                               .vocabulary = m->config.mask.mask,
                               .eod = 2,
                               .mock = 1};
    for (int i = 0; i < SAMPLES; i++)
        if (blocks_add(&m->blocks, &state, BREAK_EOS, length, &length, 1, err) < 0)
            return -1;
    return 0;
}

static int make_blocks(struct masked *m, const char *prefix, struct error *err)
{
    const struct indexed_info *info;
    int64_t tokens;

    if (!prefix)
        return make_mock(m, err);
    m->corpus = indexed_open(prefix, err);
    /* Blocks are read by their position in the stream of all tokens. */
    if (!m->corpus || indexed_verify(m->corpus, &tokens, err) < 0)
        return -1;
    info = indexed_info(m->corpus);
    if (info->multimodal)
        return error_set_code(
            err, ERROR_USAGE,
            "%s.idx: multimodal data cannot train a masked language model; use text data", prefix);
    if (tokens == 0)
        return error_set_code(err, ERROR_USAGE, "%s: it contains no tokens; tokenize it again",
                              prefix);
    return blocks_make(&m->blocks, m->corpus, m->config.break_mode, m->sequence_length - 1, err);
}

/* The most tokens of a block that are predicted. */
static int64_t block_limit(const struct masked *m, uint32_t block)
{
    return masking_limit(&m->config.mask, m->blocks.lengths[block] + 1);
}

/* Fill rows with blocks in random order, each row until the next block does not fit; then batches
 * with rows. */
static void pack_rows(struct masked *m)
{
    struct batching *b = &m->batching;
    int64_t used = 0, selected = 0, rows = 0;
    struct mt19937 rng;

    mt19937_seed(&rng, m->seed);
    mt19937_shuffle_u32(&rng, b->order, b->blocks);
    m->row_ends = xcalloc((size_t)b->blocks + 1, sizeof(*m->row_ends));
    for (int64_t i = 0; i < b->blocks; i++) {
        int64_t length = m->blocks.lengths[b->order[i]] + 1, more = block_limit(m, b->order[i]);

        if (i > 0 &&
            (used + length > m->sequence_length || selected + more > m->config.most_selected)) {
            m->row_ends[rows++] = i;
            used = selected = 0;
        }
        used += length;
        selected += more;
    }
    m->row_ends[rows++] = b->blocks;
    b->batches = 0;
    for (int64_t i = 0; i < rows; i += m->config.max_sentences)
        b->ends[b->batches++] =
            i + m->config.max_sentences < rows ? i + m->config.max_sentences : rows;
}

static int make_batches(struct masked *m, const char *prefix, struct error *err)
{
    const struct masked_config *c = &m->config;
    struct batching_config config = {.max_sentences = c->max_sentences,
                                     .max_tokens = c->max_tokens,
                                     .multiple = c->multiple,
                                     .longest = m->sequence_length,
                                     .extra = 1,
                                     .seed = m->seed};

    if (c->pack)
        config.max_sentences = 1;
    if (batching_make(&m->batching, &m->blocks, &config, err) < 0)
        return error_prefix(err, "%s", prefix);
    if (m->batching.blocks == 0)
        return error_set_code(err, ERROR_USAGE,
                              "%s: none of its %" PRId64 " samples fits into %" PRId64
                              " tokens; raise --tokens-per-sample, or use --sample-break-mode none",
                              prefix, m->blocks.count, m->sequence_length);
    if (m->batching.skipped > 0 && m->split != DATASET_TRAIN)
        return error_set(
            err,
            "%s: %" PRId64 " samples are longer than %" PRId64 " tokens, the longest has %" PRId64
            " tokens; raise --tokens-per-sample, or use --sample-break-mode none",
            prefix, m->batching.skipped, m->sequence_length, masked_counts(m).longest + 1);
    if (c->pack)
        pack_rows(m);
    m->order = xcalloc((size_t)m->batching.batches, sizeof(*m->order));
    return 0;
}

struct masked *masked_open(const char *prefix, const struct masked_config *config,
                           int64_t sequence_length, enum dataset_split split, uint32_t seed,
                           struct error *err)
{
    struct masked *m = xcalloc(1, sizeof(*m));

    pthread_mutex_init(&m->lock, NULL);
    m->config = *config;
    m->sequence_length = sequence_length;
    m->split = split;
    m->seed = seed;
    if (sequence_length < 2) {
        error_set(err, "a sample needs 2 tokens or more, but has %" PRId64, sequence_length);
        error_append(err, "; raise --tokens-per-sample, or use --sample-break-mode none");
    } else {
        m->masking = masking_create(&config->mask, err);
    }
    if (!m->masking || make_blocks(m, prefix, err) < 0 ||
        make_batches(m, prefix ? prefix : "mock data", err) < 0) {
        masked_close(m);
        return NULL;
    }
    return m;
}

void masked_close(struct masked *m)
{
    if (!m)
        return;
    pthread_mutex_destroy(&m->lock);
    indexed_close(m->corpus);
    blocks_clear(&m->blocks);
    batching_clear(&m->batching);
    free(m->row_ends);
    masking_destroy(m->masking);
    free(m->order);
    free(m);
}

int64_t masked_slots(const struct masked *m)
{
    return m->config.slots;
}

static int64_t epoch_steps(const struct masked *m)
{
    return (m->batching.batches + m->config.slots - 1) / m->config.slots;
}

int64_t masked_steps(const struct masked *m)
{
    int64_t all = epoch_steps(m), wanted = m->config.evaluated;

    return m->split != DATASET_TRAIN && wanted > 0 && wanted < all ? wanted : all;
}

struct masked_counts masked_counts(const struct masked *m)
{
    struct masked_counts counts = {
        .blocks = m->blocks.count, .skipped = m->batching.skipped, .batches = m->batching.batches};

    counts.rows = m->batching.batches > 0 ? m->batching.ends[m->batching.batches - 1] : 0;
    for (int64_t i = 0; i < m->batching.blocks; i++)
        counts.tokens += m->blocks.lengths[m->batching.order[i]] + 1;

    for (int64_t i = 0; i < m->blocks.count && counts.skipped > 0; i++)
        if (m->blocks.lengths[i] > counts.longest)
            counts.longest = m->blocks.lengths[i];
    return counts;
}

/* --- Steps ----------------------------------------------------------------------------------- */

/* The blocks of a row: from row_begin(m, row) to row_begin(m, row + 1). */
static int64_t row_begin(const struct masked *m, int64_t row)
{
    return !m->row_ends ? row : row > 0 ? m->row_ends[row - 1] : 0;
}

/* The batch of a slot, as a range of rows; empty if the epoch has no more. Only
 * training data is shuffled, and only there epochs differ. */
struct range {
    int64_t epoch, begin, end;
};

static struct range find_batch(struct masked *m, int64_t step, int64_t slot)
{
    int64_t steps = masked_steps(m), number = step % steps * m->config.slots + slot;
    int train = m->split == DATASET_TRAIN;
    struct range range = {train ? step / steps + 1 : 1, 0, 0};

    if (number >= m->batching.batches)
        return range;
    if (train) {
        pthread_mutex_lock(&m->lock);
        if (m->epoch != range.epoch)
            batching_shuffle(m->batching.batches, m->seed, range.epoch, m->order);
        m->epoch = range.epoch;
        number = m->order[number];
        pthread_mutex_unlock(&m->lock);
    }
    range.begin = number > 0 ? m->batching.ends[number - 1] : 0;
    range.end = m->batching.ends[number];
    return range;
}

/* Read a block with <s> before it. Returns its length, or -1. */
static int64_t read_block(const struct masked *m, uint32_t block, int32_t *tokens,
                          struct error *err)
{
    int64_t length = m->blocks.lengths[block];

    tokens[0] = m->config.bos;
    if (!m->corpus) {
        int32_t *text = xcalloc((size_t)m->sequence_length + 1, sizeof(*text));

        mock_text(&m->mock, block, text);
        memcpy(tokens + 1, text, (size_t)length * sizeof(*tokens));
        free(text);
    } else if (indexed_stream(m->corpus, m->blocks.begins[block], length, tokens + 1, err) < 0) {
        return -1;
    }
    return length + 1;
}

/* Read and mask a block. */
static int64_t make_sample(const struct masked *m, int64_t epoch, uint32_t block, int32_t *tokens,
                           int32_t *labels, int64_t *length, struct error *err)
{
    int64_t selected;

    *length = read_block(m, block, tokens, err);
    if (*length < 0)
        return -1;
    selected = masking_apply(m->masking, masking_seed((int64_t)m->seed, epoch, block), tokens,
                             *length, labels, err);
    return selected < 0 ? error_prefix(err, "%s.bin: sample %" PRIu32,
                                       m->corpus ? indexed_prefix(m->corpus) : "mock data", block)
                        : selected;
}

/* Selected tokens of a block; the number alone rarely needs the tokens. */
static int64_t count_selected(const struct masked *m, int64_t epoch, uint32_t block,
                              int32_t *scratch, struct error *err)
{
    int64_t count = masking_count(m->masking, masking_seed((int64_t)m->seed, epoch, block),
                                  m->blocks.lengths[block] + 1);
    int64_t length;

    return count >= 0
               ? count
               : make_sample(m, epoch, block, scratch, scratch + m->sequence_length, &length, err);
}

static int count_step(struct masked *m, int64_t step, struct masked_step *out, struct error *err)
{
    int32_t *scratch = xcalloc(2 * (size_t)m->sequence_length, sizeof(*scratch));

    *out = (struct masked_step){.epoch = step / masked_steps(m) + 1,
                                .in_epoch = step % masked_steps(m) + 1};
    for (int64_t slot = 0; slot < m->config.slots; slot++) {
        struct range range = find_batch(m, step, slot);

        for (int64_t i = row_begin(m, range.begin); i < row_begin(m, range.end); i++) {
            uint32_t block = m->batching.order[i];
            int64_t selected = count_selected(m, range.epoch, block, scratch, err);

            if (selected < 0) {
                free(scratch);
                return -1;
            }
            out->sentences++;
            out->tokens += m->blocks.lengths[block] + 1;
            out->selected += selected;
        }
    }
    free(scratch);
    return 0;
}

int masked_step_of(struct masked *m, int64_t step, struct masked_step *out, struct error *err)
{
    struct remembered *place = &m->steps[step % REMEMBERED];
    int known;

    pthread_mutex_lock(&m->lock);
    known = place->number == step + 1;
    if (known)
        *out = place->step;
    pthread_mutex_unlock(&m->lock);
    if (known)
        return 0;
    if (count_step(m, step, out, err) < 0)
        return -1;
    pthread_mutex_lock(&m->lock);
    *place = (struct remembered){step + 1, *out};
    pthread_mutex_unlock(&m->lock);
    return 0;
}

/* The number of selected tokens in the step, by which the loss of each is divided. */
static int count_share(struct masked *m, int64_t step, double *out, struct error *err)
{
    struct masked_step counts = {0};

    if (m->split == DATASET_TRAIN && m->config.per_token &&
        masked_step_of(m, step, &counts, err) < 0)
        return -1;
    *out = (double)counts.selected;
    return 0;
}

/* --- Batches --------------------------------------------------------------------------------- */

static void end_document(struct batch *batch, int64_t at)
{
    int32_t length = (int32_t)at - batch->document_offsets[batch->document_count];

    if (length == 0)
        return;
    if (length > batch->longest_document)
        batch->longest_document = length;
    batch->document_offsets[++batch->document_count] = (int32_t)at;
}

/* The two halves of masked_put: several samples may be put into a row before its padding. */
static void put_at(const struct masked_config *config, int64_t sequence_length, struct batch *batch,
                   int64_t row, int64_t offset, const struct masked_row *sample)
{
    int64_t base = row * sequence_length + offset;

    for (int64_t i = 0; i < sample->count; i++) {
        batch->tokens[base + i] = sample->tokens[i];
        batch->labels[base + i] = sample->labels[i];
        batch->loss_mask[base + i] = sample->labels[i] != BATCH_IGNORE ? 1.0f : 0.0f;
        batch->position_ids[base + i] = (int32_t)(config->position_offset + i);
        if (batch->token_types)
            batch->token_types[base + i] = sample->types ? sample->types[i] : 0;
    }
    end_document(batch, base + sample->count);
}

static void pad(const struct masked_config *config, int64_t sequence_length, struct batch *batch,
                int64_t row, int64_t used)
{
    int64_t base = row * sequence_length, offset = config->position_offset;

    for (int64_t i = base + used; i < base + sequence_length; i++) {
        batch->tokens[i] = config->pad;
        batch->labels[i] = BATCH_IGNORE;
        batch->loss_mask[i] = 0;
        batch->position_ids[i] = (int32_t)(offset > 0 ? offset - 1 : 0);
        if (batch->token_types)
            batch->token_types[i] = 0;
    }
    end_document(batch, base + sequence_length);
}

void masked_put(const struct masked_config *config, int64_t sequence_length, struct batch *batch,
                int64_t row, const struct masked_row *sample)
{
    put_at(config, sequence_length, batch, row, 0, sample);
    pad(config, sequence_length, batch, row, sample->count);
}

/* Fill a row with its blocks; 'tokens' has room for a sample and its labels. */
static int fill_row(struct masked *m, const struct range *range, int64_t row, int32_t *tokens,
                    struct batch *batch, struct error *err)
{
    int64_t number = range->begin + row, used = 0, length;
    int64_t first = number < range->end ? row_begin(m, number) : 0;
    int64_t last = number < range->end ? row_begin(m, number + 1) : 0;
    int32_t *labels = tokens + m->sequence_length;

    for (int64_t i = first; i < last; i++) {
        if (make_sample(m, range->epoch, m->batching.order[i], tokens, labels, &length, err) < 0)
            return -1;
        put_at(&m->config, m->sequence_length, batch, row, used,
               &(struct masked_row){tokens, labels, NULL, length});
        used += length;
    }
    pad(&m->config, m->sequence_length, batch, row, used);
    return 0;
}

int masked_fill(struct masked *m, int64_t step, int64_t slot, struct batch *batch,
                struct error *err)
{
    struct range range = find_batch(m, step, slot);
    int32_t *tokens = xcalloc(2 * (size_t)m->sequence_length, sizeof(*tokens));
    int rc = count_share(m, step, &batch->step_tokens, err);

    for (int64_t row = 0; row < m->config.max_sentences && rc == 0; row++)
        rc = fill_row(m, &range, row, tokens, batch, err);
    free(tokens);
    return rc;
}
