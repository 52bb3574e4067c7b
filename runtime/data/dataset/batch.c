/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset_private.h"
#include "bert.h"
#include "masked.h"

#include <string.h>
#include "lib/parse.h"

enum { ALIGNMENT = 64, PAGE = 4096 };

/* Size of one (micro_batch, sequence_length) array of 4-byte numbers plus one element, so that the
 * document offsets fit too. */
static size_t array_size(int64_t micro_batch, int64_t sequence_length)
{
    size_t size;

    if (micro_batch < 1 || sequence_length < 1 ||
        __builtin_mul_overflow(micro_batch, sequence_length, &size) ||
        size > INT32_MAX / 4 - ALIGNMENT)
        return 0;
    return ((size + 1) * 4 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* A sample has one token more than a row of 'tokens' can hold: it is read into a separate row after
 * the arrays. */
size_t batch_size(int64_t micro_batch, int64_t sequence_length)
{
    size_t array = array_size(micro_batch, sequence_length);

    if (array == 0)
        return 0;
    return (7 * array + array_size(1, sequence_length) + PAGE - 1) / PAGE * PAGE;
}

static void end_document(struct batch *batch, int64_t at)
{
    int32_t length = (int32_t)at - batch->document_offsets[batch->document_count];

    if (length > batch->longest_document)
        batch->longest_document = length;
    batch->document_offsets[++batch->document_count] = (int32_t)at;
}

static void fill_row(const struct dataset *dataset, const int32_t *text, int64_t row,
                     struct batch *batch)
{
    int64_t length = dataset->sequence_length, base = row * length;
    float *loss_mask = batch->loss_mask + base;
    int32_t *position_ids = batch->position_ids + base, position = 0;

    memcpy(batch->tokens + base, text, (size_t)length * sizeof(*text));
    memcpy(batch->labels + base, text + 1, (size_t)length * sizeof(*text));
    for (int64_t j = 0; j < length; j++) {
        int ends = text[j] == dataset->eod;

        loss_mask[j] = ends && dataset->eod_mask_loss ? 0.0f : 1.0f;
        position_ids[j] = position++;
        if (ends && dataset->reset_position_ids)
            position = 0;
        if (ends && dataset->reset_attention_mask && j + 1 < length)
            end_document(batch, base + j + 1);
    }
    end_document(batch, base + length);
}

/* A sample of Megatron's BERT. */
static int put_bert(const struct dataset *dataset, int64_t i, struct batch *batch, int64_t row,
                    struct error *err)
{
    const struct blend_member *member;
    int64_t sample;

    if (i < 0 || i >= dataset->samples)
        return error_bug(err, "sample %lld of the %s data does not exist; there are %lld",
                         (long long)i, dataset_split_name(dataset->split),
                         (long long)dataset->samples);
    if (dataset_find(dataset, i, &member, &sample, err) < 0)
        return -1;
    return bert_fill(&dataset->bert_config, member->index, member->corpus, dataset->sequence_length,
                     dataset->seed, sample, batch, row, err);
}

int dataset_batch(const struct dataset *dataset, int64_t first, int64_t micro_batch, void *buffer,
                  struct batch *batch, struct error *err)
{
    size_t array = array_size(micro_batch, dataset->sequence_length);
    char *at = buffer;
    int32_t *text;

    if (array == 0)
        return error_set(
            err,
            "a micro-batch of %lld samples of %lld tokens is too large; use a smaller micro-batch",
            (long long)micro_batch, (long long)dataset->sequence_length);
    memset(batch, 0, sizeof(*batch));
    batch->first = first;
    batch->tokens = (int32_t *)at;
    batch->labels = (int32_t *)(at + array);
    batch->loss_mask = (float *)(at + 2 * array);
    batch->position_ids = (int32_t *)(at + 3 * array);
    batch->document_offsets = (int32_t *)(at + 4 * array);
    text = (int32_t *)(at + 7 * array);
    batch->document_offsets[0] = 0;
    if (dataset->masked) {
        struct masked *masked = dataset->masked;
        int64_t slots = masked_slots(masked), number = first / micro_batch;

        batch->token_types = (int32_t *)(at + 5 * array);
        return masked_fill(masked, number / slots, number % slots, batch, err);
    }
    if (dataset->bert) {
        batch->token_types = (int32_t *)(at + 5 * array);
        batch->binary = dataset->bert_config.binary ? (int32_t *)(at + 6 * array) : NULL;
    }
    for (int64_t row = 0; row < micro_batch; row++) {
        int64_t sample = first + row;

        if (dataset->cyclic)
            sample = cyclic_sample(dataset->cyclic, sample);
        else if (dataset->split != DATASET_TRAIN && dataset->samples > 0)
            sample %= dataset->samples;
        if (dataset->bert) {
            if (put_bert(dataset, sample, batch, row, err) < 0)
                return -1;
            continue;
        }
        if (dataset_text(dataset, sample, text, err) < 0)
            return -1;
        fill_row(dataset, text, row, batch);
    }
    return 0;
}
