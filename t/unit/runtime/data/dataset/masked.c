/* SPDX-License-Identifier: Apache-2.0 */
/* Samples and steps of masked language models against a run of fairseq. */
#include "data/dataset/masked.h"
#include "tap.h"

#define GOLDEN TOP_SRCDIR "/t/train/roberta/data-bin/"

static struct masked_config golden_config(int64_t slots, int64_t sentences)
{
    return (struct masked_config){.break_mode = BREAK_COMPLETE,
                                  .max_sentences = sentences,
                                  .multiple = 8,
                                  .slots = slots,
                                  .per_token = 1,
                                  .pad = 1,
                                  .position_offset = 2,
                                  .mask = {.rule = MASK_FAIRSEQ,
                                           .vocabulary = 305,
                                           .mask = 304,
                                           .first_random = 4,
                                           .probability = .15,
                                           .leave_unmasked = .1,
                                           .random_token = .1}};
}

static void test_golden_steps(void)
{
    static const int tokens[] = {416, 336, 496, 363, 477, 500, 506, 340};
    static const int selected[] = {60, 49, 73, 55, 72, 77, 76, 50};
    struct masked_config config = golden_config(1, 8);
    struct masked_step step;
    struct masked *masked;
    struct error err;
    int good = 1;
    int64_t valid = 0;

    masked = masked_open(GOLDEN "train", &config, 64, DATASET_TRAIN, 1, &err);
    if (!ok(masked != NULL, "fairseq's data-bin opens"))
        return;
    for (int i = 0; i < 8; i++) {
        good &= masked_step_of(masked, i, &step, &err) == 0;
        good &= step.tokens == tokens[i] && step.selected == selected[i] && step.sentences == 8;
    }
    ok(good, "8 steps have fairseq's numbers of tokens and selected tokens");
    masked_step_of(masked, masked_steps(masked), &step, &err);
    ok(step.epoch == 2 && step.in_epoch == 1, "the second epoch follows the last step");
    masked_close(masked);
    masked = masked_open(GOLDEN "valid", &config, 64, DATASET_VALID, 1, &err);
    for (int64_t i = 0; i < masked_steps(masked); i++) {
        masked_step_of(masked, i, &step, &err);
        valid += step.selected;
    }
    ok(masked_counts(masked).blocks == 24 && valid == 192,
       "validation has fairseq's blocks and selected tokens");
    masked_close(masked);
    ok(!masked_open(GOLDEN "valid", &config, 16, DATASET_VALID, 1, &err) &&
           strstr(err.text, "are longer than 16 tokens"),
       "validation samples that are too long are an error");
}

enum { LENGTH = 64 };

struct room {
    int32_t tokens[8 * LENGTH], labels[8 * LENGTH], positions[8 * LENGTH], offsets[8 * LENGTH + 1];
    float loss_mask[8 * LENGTH];
};

static struct batch batch_in(struct room *room)
{
    room->offsets[0] = 0;
    return (struct batch){.tokens = room->tokens,
                          .labels = room->labels,
                          .loss_mask = room->loss_mask,
                          .position_ids = room->positions,
                          .document_offsets = room->offsets};
}

/* A hash of what a step trains on, whatever the order of its batches. */
static uint64_t step_hash(struct masked *masked, int64_t step, int64_t sentences, double *counted)
{
    uint64_t total = 0;
    struct error err;

    for (int64_t slot = 0; slot < masked_slots(masked); slot++) {
        struct room room;
        struct batch batch = batch_in(&room);

        masked_fill(masked, step, slot, &batch, &err);
        *counted = batch.step_tokens;
        for (int64_t row = 0; row < sentences; row++) {
            uint64_t hash = 14695981039346656037u;

            for (int64_t i = row * LENGTH; i < (row + 1) * LENGTH; i++)
                hash = (hash ^ (uint64_t)(room.tokens[i] * 331 + room.labels[i])) * 1099511628211u;
            if (room.tokens[row * LENGTH] != 1)
                total += hash;
        }
    }
    return total;
}

/* 4 ranks, or 2 with twice the micro-batches: fairseq gives both the same batches. */
static void test_layouts(void)
{
    struct masked_config config = golden_config(4, 8);
    struct masked *one, *other;
    struct error err;
    double counted = 0, again = 0;
    int good = 1;

    one = masked_open(GOLDEN "train", &config, 64, DATASET_TRAIN, 1, &err);
    other = masked_open(GOLDEN "train", &config, 64, DATASET_TRAIN, 1, &err);
    /* 'other' begins in the middle, as after a resume. */
    for (int64_t step = masked_steps(one) + 2; step >= 0; step--) {
        good &= step_hash(one, masked_steps(one) + 2 - step, 8, &counted) != 0;
        good &= step_hash(one, step, 8, &counted) == step_hash(other, step, 8, &again);
        good &= counted == again;
    }
    ok(good, "a step does not depend on the steps before it");
    masked_close(one);
    masked_close(other);
}

static void test_batch(void)
{
    struct masked_config config = golden_config(1, 8);
    struct room room;
    struct batch batch = batch_in(&room);
    struct masked *masked;
    struct error err;
    int64_t selected = 0, good = 1;

    masked = masked_open(GOLDEN "train", &config, 64, DATASET_TRAIN, 1, &err);
    ok(masked_fill(masked, 0, 0, &batch, &err) == 0 && batch.step_tokens == 60,
       "the first batch of the run");
    for (int i = 0; i < 8 * LENGTH; i++) {
        int pad = room.tokens[i] == 1;

        selected += room.loss_mask[i] > 0;
        good &= room.positions[i] == (pad ? 1 : 2 + i % LENGTH);
        good &= (room.loss_mask[i] > 0) == (room.labels[i] != BATCH_IGNORE);
        good &= !pad || room.labels[i] == BATCH_IGNORE;
    }
    ok(good && selected == 60, "positions count from 2, padding has 1, 60 labels");
    ok(batch.document_offsets[batch.document_count] == 8 * LENGTH && batch.document_count == 16 &&
           batch.document_offsets[1] == 52,
       "every sample and its padding are documents");
    masked_close(masked);
}

/* Packed rows have every sample once, with its own positions, and no more labels than allowed. */
static void test_pack(void)
{
    struct masked_config config = golden_config(1, 8);
    struct masked *packed, *padded;
    struct masked_step step;
    struct error err;
    int64_t tokens = 0, selected = 0, all = 0, all_selected = 0;
    int good = 1;

    config.break_mode = BREAK_EOS;
    padded = masked_open(GOLDEN "train", &config, 64, DATASET_TRAIN, 1, &err);
    config.pack = 1;
    config.most_selected = 12;
    packed = masked_open(GOLDEN "train", &config, 64, DATASET_TRAIN, 1, &err);
    for (int64_t i = 0; i < masked_steps(padded); i++) {
        masked_step_of(padded, i, &step, &err);
        all += step.tokens;
        all_selected += step.selected;
    }
    for (int64_t i = 0; i < masked_steps(packed); i++) {
        struct room room;
        struct batch batch = batch_in(&room);

        masked_fill(packed, i, 0, &batch, &err);
        for (int row = 0; row < 8; row++) {
            int here = 0;

            for (int j = 0; j < LENGTH; j++) {
                int at = row * LENGTH + j, pad = room.tokens[at] == 1;

                tokens += !pad;
                here += room.labels[at] != BATCH_IGNORE;
                good &= pad || room.positions[at] == 2 ||
                        room.positions[at] == room.positions[at - 1] + 1;
            }
            selected += here;
            good &= here <= 12;
        }
    }
    ok(tokens == all && selected == all_selected, "packed rows contain all samples with their masks");
    ok(good, "positions begin again with each sample, labels are limited");
    ok(2 * masked_counts(packed).rows < masked_counts(padded).rows,
       "in half as many rows or fewer");
    masked_close(packed);
    masked_close(padded);
}

int main(void)
{
    test_golden_steps();
    test_layouts();
    test_batch();
    test_pack();
    return done_testing();
}
