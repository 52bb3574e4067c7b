/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of masked language models against fairseq's and numpy's own results. */
#include "bert.h"
#include "masked.h"
#include "mt19937.h"
#include "tap.h"

#include "corpus.h"

#define GOLDEN TOP_SRCDIR "/t/train/roberta/data-bin/"

enum { V = 50265 };

/* --- Blocks ---------------------------------------------------------------------------------- */

static void test_blocks(void)
{
    static const int32_t lines[] = {30, 5, 60, 1, 40, 7, 3, 90, 20, 1, 1, 25};
    static const struct {
        enum break_mode mode;
        int count;
        int32_t lengths[12];
        int64_t last; /* where the last one begins */
    } rows[] = {
        {BREAK_NONE, 5, {63, 63, 63, 63, 31}, 252},
        {BREAK_COMPLETE, 5, {35, 61, 50, 90, 47}, 236},
        {BREAK_COMPLETE_DOC, 6, {35, 60, 50, 90, 20, 25}, 258},
        {BREAK_EOS, 12, {30, 5, 60, 1, 40, 7, 3, 90, 20, 1, 1, 25}, 258},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct blocks blocks = {0};
        struct blocks_state state = {0, 0};
        struct error err;

        blocks_add(&blocks, &state, rows[i].mode, 63, lines, 12, &err);
        blocks_finish(&blocks, &state, rows[i].mode, 63, &err);
        ok(blocks.count == rows[i].count &&
               memcmp(blocks.lengths, rows[i].lengths, (size_t)rows[i].count * 4) == 0 &&
               blocks.begins[blocks.count - 1] == rows[i].last,
           "break mode %d cuts lines like fairseq", (int)rows[i].mode);
        blocks_clear(&blocks);
    }
}

/* Blocks of the given lengths, batched. The ends of the batches, as text. */
static void batch_ends(const int32_t *lengths, int64_t count, struct batching_config config,
                       char *out, size_t size)
{
    struct blocks blocks = {.lengths = (int32_t *)lengths, .count = count};
    struct batching batching;
    struct error err;
    size_t used = 0;

    out[0] = '\0';
    config.longest = 64;
    if (batching_make(&batching, &blocks, &config, &err) < 0)
        snprintf(out, size, "%s", err.text);
    for (int64_t i = 0; i < batching.batches; i++)
        used +=
            (size_t)snprintf(out + used, size - used, "%s%d", i ? " " : "", (int)batching.ends[i]);
    batching_clear(&batching);
}

static void test_batching(void)
{
    static const struct {
        const char *what;
        int64_t blocks, sentences, tokens, multiple;
        const char *ends;
    } rows[] = {
        {"full batches", 24, 8, 0, 8, "8 16 24"},
        {"a ragged end", 21, 8, 0, 8, "8 16 21"},
        {"a limit that is no multiple", 30, 12, 0, 8, "8 16 24 30"},
        {"a small limit", 7, 3, 0, 8, "3 6 7"},
        {"a tail of its own", 29, 16, 0, 8, "16 24 29"},
        /* lengths 1 to 20 */
        {"a limit of tokens", 20, 100, 100, 1, "10 16 20"},
        {"a limit of tokens and a multiple", 20, 100, 100, 8, "8 14 19 20"},
    };
    int32_t lengths[64];
    char ends[1024];

    for (int i = 0; i < 64; i++)
        lengths[i] = i + 1;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        batch_ends(lengths, rows[i].blocks,
                   (struct batching_config){.max_sentences = rows[i].sentences,
                                            .max_tokens = rows[i].tokens,
                                            .multiple = rows[i].multiple},
                   ends, sizeof(ends));
        is(ends, rows[i].ends, rows[i].what);
    }
    batch_ends(lengths, 5, (struct batching_config){.max_sentences = 8, .max_tokens = 10}, ends,
               sizeof(ends));
    ok(strstr(ends, "10 tokens in a micro-batch are less than a sample") != NULL,
       "a limit of tokens below one sample is an error");
}

/* --- Masks ----------------------------------------------------------------------------------- */

struct change {
    int place, token;
};

enum { M = V - 1, K = -2 }; /* the mask token; kept as it was */

static struct mask_config usual(enum mask_rule rule)
{
    return (struct mask_config){.rule = rule,
                                .vocabulary = V,
                                .mask = M,
                                .first_random = 4,
                                .probability = 0.15,
                                .leave_unmasked = 0.1,
                                .random_token = 0.1};
}

static int32_t text_token(int i)
{
    return i == 0 ? 0 : (7 * i * i + 11 * i) % 1000 + 4;
}

static void test_seeds(void)
{
    ok(masking_seed(1, 1, 0) == 810752 && masking_seed(1, 1, 1) == 808832 &&
           masking_seed(1, 2, 0) == 565248,
       "seeds are Python's hash modulo 1e6");
}

static void test_vectors(void)
{
    static uint8_t begins[V];
    static double counts[V];
    static const struct {
        const char *what;
        enum mask_rule rule;
        int64_t seed, epoch, index;
        int n, words, by_count;
        double random, leave;
        struct change changes[20]; /* up to a change of place 0 that is not the first */
    } rows[] = {
        {"fairseq 0.12, epoch 1, block 0",
         MASK_FAIRSEQ,
         1,
         1,
         0,
         36,
         0,
         0,
         .1,
         .1,
         {{0, M}, {3, M}, {24, M}, {32, M}, {35, K}}},
        {"fairseq 0.12, epoch 2",
         MASK_FAIRSEQ,
         1,
         2,
         0,
         36,
         0,
         0,
         .1,
         .1,
         {{4, 31619}, {7, 39868}, {16, M}, {18, M}, {24, K}}},
        {"fairseq 0.12, block 1",
         MASK_FAIRSEQ,
         1,
         1,
         1,
         62,
         0,
         0,
         .1,
         .1,
         {{4, K}, {11, M}, {15, M}, {24, M}, {34, M}, {39, M}, {41, M}, {49, 28114}, {50, M}}},
        {"fairseq main",
         MASK_FAIRSEQ_MAIN,
         1,
         1,
         0,
         36,
         0,
         0,
         .1,
         .1,
         {{13, M}, {14, K}, {17, M}, {22, M}, {24, M}, {33, M}}},
        {"fairseq main, block 1",
         MASK_FAIRSEQ_MAIN,
         1,
         1,
         1,
         62,
         0,
         0,
         .1,
         .1,
         {{6, M},
          {15, 5919},
          {32, 19321},
          {35, M},
          {38, M},
          {41, 39828},
          {53, M},
          {58, M},
          {59, M}}},
        {"whole words",
         MASK_FAIRSEQ,
         1,
         1,
         3,
         100,
         1,
         0,
         .1,
         .1,
         {{15, M},
          {19, M},
          {29, M},
          {30, M},
          {34, M},
          {35, M},
          {36, M},
          {37, M},
          {45, M},
          {46, M},
          {47, M},
          {60, M},
          {71, M},
          {86, M},
          {93, M},
          {96, M},
          {97, M},
          {98, M}}},
        {"replacements by frequency",
         MASK_FAIRSEQ,
         7,
         3,
         11,
         100,
         0,
         1,
         .6,
         .1,
         {{10, 30034},
          {13, 7932},
          {25, 9554},
          {28, M},
          {32, 5041},
          {42, M},
          {46, M},
          {50, 413},
          {51, M},
          {71, 8226},
          {80, 18401},
          {83, 19512},
          {87, M},
          {94, M},
          {97, 26692}}},
        {"whole words, main",
         MASK_FAIRSEQ_MAIN,
         1,
         1,
         3,
         100,
         1,
         0,
         .5,
         .1,
         {{20, M},
          {21, M},
          {22, M},
          {23, M},
          {33, M},
          {62, 41773},
          {67, M},
          {72, M},
          {73, 40414},
          {87, 46514},
          {88, M},
          {89, M},
          {90, M},
          {96, 13879},
          {97, 1379},
          {98, 48935}}},
    };

    for (int id = 0; id < V; id++) {
        begins[id] = id < 4 || id % 3 != 1;
        counts[id] = V - id;
    }
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        struct mask_config config = usual(rows[r].rule);
        int32_t tokens[100], labels[100];
        int good = 1, changes = 0;
        struct masking *masking;
        struct error err;
        int64_t selected;
        uint32_t seed = masking_seed(rows[r].seed, rows[r].epoch, rows[r].index);

        config.begins = rows[r].words ? begins : NULL;
        config.counts = rows[r].by_count ? counts : NULL;
        config.random_token = rows[r].random;
        config.leave_unmasked = rows[r].leave;
        for (int i = 0; i < rows[r].n; i++)
            tokens[i] = i == rows[r].n - 1 ? 2 : text_token(i);
        masking = masking_create(&config, &err);
        selected = masking_apply(masking, seed, tokens, rows[r].n, labels, &err);
        for (int i = 0; i < rows[r].n; i++) {
            const struct change *c = &rows[r].changes[changes];
            int32_t old = i == rows[r].n - 1 ? 2 : text_token(i);
            int here = c->place == i && (c->token != 0);

            changes += here;
            good &= labels[i] == (here ? old : BATCH_IGNORE);
            good &= tokens[i] == (here && c->token != K ? c->token : old);
        }
        ok(good && selected == changes, "%s: %d tokens", rows[r].what, changes);
        ok(masking_count(masking, seed, rows[r].n) == (rows[r].words ? -1 : selected) &&
               selected <= masking_limit(&config, rows[r].n),
           "their number is known beforehand");
        masking_destroy(masking);
    }
}

/* Long samples: numpy's Generator draws them differently. */
static void test_long(void)
{
    enum { N = 12000 };
    static int32_t tokens[N], labels[N];
    struct mask_config config = usual(MASK_FAIRSEQ_MAIN);
    struct masking *masking;
    struct error err;
    int64_t sum = 0, selected;

    for (int i = 0; i < N; i++)
        tokens[i] = i == 0 ? 0 : (int32_t)((7 * (int64_t)i * i + 11 * (int64_t)i) % 1000 + 4);
    masking = masking_create(&config, &err);
    selected = masking_apply(masking, masking_seed(1, 1, 3), tokens, N, labels, &err);
    for (int i = 0; i < N; i++)
        if (labels[i] != BATCH_IGNORE)
            sum += (int64_t)i * (tokens[i] % 97);
    ok(selected == 1800 && sum == 271320998, "a sample of 12000 tokens");
    masking_destroy(masking);
}

static void test_collator(void)
{
    enum { N = 20000 };
    static int32_t tokens[N], labels[N];
    struct mask_config config = usual(MASK_COLLATOR);
    struct masking *masking;
    int64_t selected, masked = 0, kept = 0, special = 0;
    struct error err;

    for (int i = 0; i < N; i++)
        tokens[i] = i % 10 == 0 ? 2 : 100;
    masking = masking_create(&config, &err);
    selected = masking_apply(masking, 7, tokens, N, labels, &err);
    for (int i = 0; i < N; i++) {
        masked += labels[i] != BATCH_IGNORE && tokens[i] == M;
        kept += labels[i] != BATCH_IGNORE && tokens[i] == 100;
        special += labels[i] == 2;
    }
    ok(special == 0, "Hugging Face's way never selects special tokens");
    ok(selected > 2500 && selected < 2900 && masked > .77 * (double)selected &&
           masked < .83 * (double)selected && kept > .07 * (double)selected &&
           kept < .13 * (double)selected,
       "and selects 15 %%: 80 %% masked, 10 %% kept, 10 %% replaced");
    masking_destroy(masking);
}

static void test_bad_tokens(void)
{
    struct mask_config config = usual(MASK_FAIRSEQ);
    struct masking *masking;
    int32_t tokens[] = {0, 7, V}, labels[3];
    struct error err;

    masking = masking_create(&config, &err);
    ok(masking_apply(masking, 1, tokens, 3, labels, &err) < 0 &&
           strstr(err.text, "outside the vocabulary of 50265") && strstr(err.text, "dict.txt"),
       "a token outside the vocabulary is an error");
    tokens[2] = M;
    ok(masking_apply(masking, 1, tokens, 3, labels, &err) < 0 &&
           strstr(err.text, "contains the mask token"),
       "data with the mask token is an error");
    masking_destroy(masking);
    config.mask = V;
    ok(!masking_create(&config, &err) && strstr(err.text, "mask token 50265 is not among"),
       "a mask token outside the vocabulary is an error");
    config = usual(MASK_FAIRSEQ);
    config.probability = 1.5;
    ok(!masking_create(&config, &err), "a probability above 1 is an error");
    config = usual(MASK_FAIRSEQ);
    config.random_token = config.leave_unmasked = .6;
    ok(!masking_create(&config, &err), "shares above 1 are an error");
}

/* --- fairseq's run --------------------------------------------------------------------------- */

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
    ok(step.epoch == 2 && step.in_epoch == 1, "after the last step comes the second epoch");
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
           strstr(err.text, "have more than 16 tokens"),
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

/* --- Megatron's BERT ------------------------------------------------------------------------- */

static void test_mapping(void)
{
    static const int32_t lengths[] = {5, 7, 3, 9, 4, 6, 8, 2, 5, 6, 3, 10, 600, 4, 7, 7};
    static const int64_t documents[] = {0, 4, 5, 5, 11, 14, 16};
    static const struct bert_range expected[] = {
        {2, 4, 10}, {0, 2, 10}, {5, 7, 10}, {14, 16, 8}, {7, 11, 10}};
    struct bert_request request = {documents, 6, lengths, -1, 10, .5, 1234, 2};
    struct bert_range *ranges;
    struct error err;
    int64_t count = bert_mapping(&request, &ranges, &err);

    ok(count == 5 && memcmp(ranges, expected, sizeof(expected)) == 0,
       "megatron-core's mapping of sentences");
    free(ranges);
    request.samples = 12;
    ok(bert_mapping(&request, &ranges, &err) >= 12, "of as many epochs as are needed");
    free(ranges);
    request.document_count = 0;
    ok(bert_mapping(&request, &ranges, &err) == 0, "none without documents");
    free(ranges);
}

static void test_bert_samples(void)
{
    static const int32_t lengths[] = {5, 7, 3, 9, 4, 6, 8, 2, 5, 6, 3, 10, 60, 4, 7, 7};
    static const struct {
        int first, end, target, number, length, binary, tokens, masked, is_random;
        uint64_t hash;
    } rows[] = {
        {0, 4, 29, 0, 32, 1, 27, 4, 0, UINT64_C(13662288216878907742)},
        {0, 4, 29, 1, 32, 1, 27, 4, 0, UINT64_C(4548497117615901281)},
        {4, 8, 10, 2, 32, 1, 13, 1, 1, UINT64_C(2430315950626013767)},
        {5, 13, 125, 3, 128, 1, 103, 15, 1, UINT64_C(16735883385464617002)},
        {5, 13, 60, 4, 128, 1, 63, 9, 1, UINT64_C(10892920443140188452)},
        {0, 16, 61, 5, 64, 1, 64, 9, 1, UINT64_C(7534545987212100558)},
        {12, 13, 40, 6, 64, 0, 42, 6, 0, UINT64_C(15628893536829181841)},
        {0, 8, 61, 7, 64, 0, 46, 7, 0, UINT64_C(15628938625622055773)},
        {14, 16, 61, 8, 64, 1, 17, 3, 0, UINT64_C(3370795143993086139)},
        {3, 9, 30, 9, 64, 1, 33, 4, 0, UINT64_C(15108301947024256026)},
        {8, 10, 7, 10, 64, 1, 10, 1, 0, UINT64_C(7310633194614128432)},
    };
    static uint8_t begins[1000];
    struct masked_config config = {
        .bos = 101,
        .sep = 102,
        .mask = {.vocabulary = 1000, .mask = 103, .probability = .15, .begins = begins}};

    for (int i = 0; i < 1000; i++)
        begins[i] = i % 3 != 2;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        int32_t text[256], tokens[128], labels[128], types[128];
        struct bert_sample sample = {tokens, labels, types, 0, 0};
        int64_t ends[16], count = rows[r].end - rows[r].first, total = 0, start = 0, masked = 0;
        struct error err;
        uint64_t hash = 0;

        for (int i = 0; i < rows[r].first; i++)
            start += lengths[i];
        for (int i = 0; i < count; i++) {
            for (int j = 0; j < lengths[rows[r].first + i]; j++) {
                int64_t at = start + total + j;

                text[total + j] = (int32_t)(200 + (7 * at * at + 3 * j) % 700);
            }
            total += lengths[rows[r].first + i];
            ends[i] = total;
        }
        config.binary = rows[r].binary;
        bert_make(&config, 1234, rows[r].number, text, ends, count, rows[r].target, &sample, &err);
        for (int i = 0; i < sample.count; i++) {
            hash = hash * 1000003 + (uint64_t)(tokens[i] + 7);
            hash = hash * 1000003 + (uint64_t)(types[i] + 7);
            hash = hash * 1000003 + (uint64_t)(labels[i] + 8);
            masked += labels[i] != BATCH_IGNORE;
        }
        ok(sample.count == rows[r].tokens && masked == rows[r].masked &&
               sample.is_random == rows[r].is_random && hash == rows[r].hash,
           "megatron-core's sample %d of sentences %d to %d", rows[r].number, rows[r].first,
           rows[r].end);
    }
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
    ok(tokens == all && selected == all_selected, "packed rows have all samples with their masks");
    ok(good, "positions begin again with each sample, labels are limited");
    ok(2 * masked_counts(packed).rows < masked_counts(padded).rows,
       "in half as many rows or fewer");
    masked_close(packed);
    masked_close(padded);
}

int main(void)
{
    test_pack();
    test_mapping();
    test_bert_samples();
    test_blocks();
    test_batching();
    test_seeds();
    test_vectors();
    test_long();
    test_collator();
    test_bad_tokens();
    test_golden_steps();
    test_layouts();
    test_batch();
    return done_testing();
}
