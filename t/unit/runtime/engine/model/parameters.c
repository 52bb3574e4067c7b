/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of all ranks of a layout: together they are the whole model, each element once, and
 * their positions in the arenas satisfy what the optimizer relies on. */
#include "tap.h"
#include "engine/model/parameters.h"

#include <stdlib.h>

static const char *fault;

static void check(int good, const char *what)
{
    if (!good && !fault)
        fault = what;
}

/* How often each element of each tensor of the whole model occurs, by name. */
struct whole {
    struct parameters p; /* of one rank that has everything */
    unsigned char **held;
};

static int find(const struct parameters *p, const char *name)
{
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->list[i].name, name) == 0)
            return i;
    return -1;
}

static void count_rank(struct whole *whole, const struct parameters *p, int first_tp)
{
    for (int i = 0; i < p->count; i++) {
        const struct parameter *part = &p->list[i];
        int shared = part->class == CLASS_SHARED || part->class == CLASS_SHARED_RAW;
        int at = find(&whole->p, part->name);

        check(at >= 0, "a tensor that the whole model does not have");
        if (at < 0 || part->class == CLASS_TIED || (shared && !first_tp))
            continue;
        check(part->all_cols == whole->p.list[at].all_cols, "another width than the whole has");
        for (int64_t r = 0; r < part->rows; r++)
            for (int64_t c = 0; c < part->cols; c++) {
                int64_t row = part->first_row + r, col = part->first_col + c;

                if (row < whole->p.list[at].rows)
                    whole->held[at][row * part->all_cols + col]++;
                else
                    check(row >= part->true_rows, "a row beyond the whole that is no padding");
            }
    }
}

/* Weights in fp8 are in buckets of their own, in whole groups of 256, and take one byte each. */
static void check_bytes(const struct parameters *p, const struct model_config *config)
{
    size_t end = 0;
    int in_fp8 = 0;

    for (int b = 0; b < p->bucket_count; b++) {
        const struct bucket *bucket = &p->buckets[b];
        size_t each = bucket->type == TYPE_E4M3 ? 1 : 2;

        check(bucket->weights % 256 == 0 && bucket->weights >= end && bucket->weights - end < 256,
              "weights of buckets are not side by side");
        check(bucket_weight(bucket, bucket->first + 3) == bucket->weights + 3 * each,
              "an element of another size");
        end = bucket->weights + (size_t)bucket->size * each;
    }
    check(p->weight_bytes % 256 == 0 && p->weight_bytes >= end && p->weight_bytes - end < 256,
          "bytes of the weights");
    for (int t = 0; t < p->tensor_count; t++) {
        const struct tensor *tensor = &p->tensors[t];
        int matrix = tensor->class == CLASS_DIVIDED && t != p->word && t != p->head;

        if (p->buckets[tensor->bucket].type != TYPE_E4M3) {
            check(!config->numerics.fp8.gather || !matrix || tensor->elements % 256 != 0,
                  "a matrix that is not in fp8");
            continue;
        }
        check(matrix && tensor->elements % 256 == 0, "a tensor that must not be in fp8");
        in_fp8++;
    }
    check(!in_fp8 == !config->numerics.fp8.gather, "fp8 without being asked for, or none");
}

static void check_places(const struct parameters *p)
{
    int64_t end = 0, shard = 0, counted = 0;

    for (int b = 0; b < p->bucket_count; b++) {
        const struct bucket *bucket = &p->buckets[b];
        int64_t used = 0;

        check(bucket->first == end, "buckets are not side by side");
        check(bucket->size % bucket->shards == 0, "a bucket that cannot be divided");
        check(bucket->shard_first == shard, "shards are not side by side");
        for (int c = 0; c < CLASS_COUNT; c++) {
            check(bucket->class_first[c] == used, "classes are not side by side");
            used += bucket->class_size[c];
            if (c == CLASS_SHARED)
                check(bucket->decayed == used, "decayed elements are not the first");
        }
        check(used <= bucket->size, "classes leave their bucket");
        end += bucket->size;
        shard += bucket->size / bucket->shards;
    }
    check(end == p->elements && shard == p->shard_elements, "sizes of the arenas");
    for (int t = 0; t < p->tensor_count; t++) {
        const struct tensor *tensor = &p->tensors[t];
        const struct bucket *bucket = &p->buckets[tensor->bucket];
        int64_t first = bucket->first + bucket->class_first[tensor->class];
        int64_t at = tensor->offset;

        check(tensor->offset % 128 == 0, "a tensor that is not aligned");
        check(at >= first && at + tensor->elements <= first + bucket->class_size[tensor->class],
              "a tensor outside of its class");
        for (int other = 0; other < t; other++)
            check(p->tensors[other].offset + p->tensors[other].elements <= at ||
                      at + tensor->elements <= p->tensors[other].offset,
                  "tensors that overlap");
        for (int i = tensor->first; i < tensor->first + tensor->pieces; i++) {
            check(p->list[i].offset == at, "pieces that are not side by side");
            at += p->list[i].rows * p->list[i].cols;
        }
        counted += tensor->elements;
    }
    check(counted == p->true_elements, "the number of parameters");
}

static void test(const struct model_config *config, struct layout layout, int64_t chunks,
                 int64_t bucket_elements)
{
    struct model_config one = *config, many = *config;
    struct layout alone = {1, 1, 1, 1};
    struct layout_position origin = {0, 0, 0, 0};
    struct whole whole;

    fault = NULL;
    many.split.chunks = chunks;
    many.bucket_elements = bucket_elements;
    many.padded_vocabulary = vocabulary_padded(config->network.shape.vocabulary, 16, layout.tp);
    one.padded_vocabulary = one.network.shape.vocabulary;
    parameters_create(&whole.p, &one, &alone, &origin);
    whole.held = calloc((size_t)whole.p.count, sizeof(*whole.held));
    for (int i = 0; i < whole.p.count; i++)
        whole.held[i] = calloc((size_t)(whole.p.list[i].rows * whole.p.list[i].cols), 1);
    for (int64_t pp = 0; pp < layout.pp; pp++)
        for (int64_t tp = 0; tp < layout.tp; tp++) {
            struct layout_position at = {.tp = tp, .pp = pp};
            struct parameters p;

            parameters_create(&p, &many, &layout, &at);
            check_places(&p);
            check_bytes(&p, &many);
            count_rank(&whole, &p, tp == 0);
            parameters_destroy(&p);
        }
    for (int i = 0; i < whole.p.count; i++) {
        for (int64_t e = 0; e < whole.p.list[i].rows * whole.p.list[i].cols; e++)
            check(whole.held[i][e] == 1, "an element that no rank has, or two");
        free(whole.held[i]);
    }
    free(whole.held);
    parameters_destroy(&whole.p);
    if (!ok(!fault, "%s, tp %d, pp %d, dp %d, %d chunks, buckets of %d%s",
            config->network.shape.name, (int)layout.tp, (int)layout.pp, (int)layout.dp, (int)chunks,
            (int)bucket_elements, config->numerics.fp8.gather ? ", weights in fp8" : ""))
        diag("%s", fault);
}

int main(void)
{
    struct model_config gpt = {
        .network.shape = {"gpt", MODEL_GPT, 8, 16, 64, 8, 8, 2, 90, 12, 0},
        .network.positions = 12,
        .network.position = POSITION_LEARNED,
        .network.norm = NORM_LAYER,
        .network.tied = 1,
        .network.linear_bias = 1,
        .network.init_std = 0.02,
        .micro_batch = 1,
        .split.chunks = 1,
        .numerics.type = TYPE_BF16,
    };
    struct model_config llama = gpt, in_fp8;

    llama.network.shape =
        (struct model_shape){"llama", MODEL_LLAMA, 8, 16, 40, 8, 4, 2, 90, 12, 10000};
    llama.network.position = POSITION_ROPE;
    llama.network.norm = NORM_RMS;
    llama.network.swiglu = 1;
    llama.network.tied = llama.network.linear_bias = 0;
    in_fp8 = gpt;
    in_fp8.network.shape.hidden = 64;
    in_fp8.network.shape.ffn_hidden = 128;
    in_fp8.network.shape.kv_channels = 16;
    in_fp8.network.shape.sequence = 16;
    in_fp8.numerics.fp8 = (struct fp8_config){.format = FP8_HYBRID, .gather = 1};
    for (int64_t tp = 1; tp <= 4; tp *= 2)
        for (int64_t pp = 1; pp <= 4; pp *= 2)
            for (int64_t dp = 1; dp <= 3; dp++)
                for (int64_t chunks = 1; chunks <= (pp > 1 ? 2 : 1); chunks++)
                    for (int64_t bucket = 1; bucket <= 10000; bucket += 4999) {
                        test(&gpt, (struct layout){tp, 1, dp, pp}, chunks, bucket);
                        test(&llama, (struct layout){tp, 1, dp, pp}, chunks, bucket);
                        if (bucket > 1)
                            test(&in_fp8, (struct layout){tp, 1, dp, pp}, chunks, bucket);
                    }
    return done_testing();
}
