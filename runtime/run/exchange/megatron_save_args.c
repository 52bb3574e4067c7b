/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments that Megatron-LM stores with a model and compares when it loads it. */
#include "megatron_save_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GPT2_VOCABULARY 50257

/* --- Which models it has --------------------------------------------------------------------- */

/* Write what the network has that Megatron-LM's GPT lacks, or that is not mapped to its names, into
 * 'part'; 0: nothing. */
static int find_foreign(const struct network *m, char *part, size_t size)
{
    if (m->position == POSITION_ROPE && m->rope_scaling.kind == ROPE_YARN)
        return snprintf(part, size, "YaRN");
    for (const struct network_property *p = network_properties; p->name; p++)
        if (!p->megatron && network_value(m, p) != p->fallback)
            return network_describe(m, p, part, size)
                       ? 1
                       : snprintf(part, size, "--%s", network_option(p));
    return 0;
}

/* Megatron-LM has only the factor of Llama 3's scaling as an argument. */
static int is_llama3_scaling(const struct rope_scaling *r)
{
    return r->low == 1 && r->high == 4 && r->original == 8192;
}

int megatron_save_check(const struct network *m, const struct megatron_target *target,
                        struct error *err)
{
    const struct model_shape *shape = &m->shape;
    char part[96];

    if (find_foreign(m, part, sizeof(part)))
        return error_set(err,
                         "the model has %s, which a Megatron-LM export does not support; export "
                         "it in the Hugging Face format",
                         part);
    if (m->position == POSITION_ROPE && m->rope_scaling.kind == ROPE_LLAMA3 &&
        !is_llama3_scaling(&m->rope_scaling))
        return error_set(
            err, "the model scales rotary positions with other values than Llama 3.1, "
                 "which Megatron-LM does not support; export it in the Hugging Face format");
    if (target->interleaved && m->position != POSITION_ROPE)
        return error_set_code(err, ERROR_USAGE,
                              "the model has no rotary position embeddings that "
                              "could be interleaved; export it without interleaving");
    if (target->dist)
        return 0;
    if (shape->layers % target->pp != 0)
        return error_set_code(
            err, ERROR_USAGE,
            "%lld layers cannot be divided into %lld stages; choose another number of stages",
            (long long)shape->layers, (long long)target->pp);
    if (shape->query_groups % target->tp != 0 || shape->heads % target->tp != 0 ||
        shape->ffn_hidden % target->tp != 0)
        return error_set_code(
            err, ERROR_USAGE,
            "%lld attention heads, %lld query groups and an ffn hidden size of %lld cannot be "
            "divided among %lld tensor-parallel ranks; choose another number",
            (long long)shape->heads, (long long)shape->query_groups, (long long)shape->ffn_hidden,
            (long long)target->tp);
    return 0;
}

/* --- Arguments ------------------------------------------------------------------------------- */

static void put_whole(struct pickle_writer *p, const char *name, int64_t number)
{
    pickle_put_text(p, name);
    pickle_put_integer(p, number);
}

static void put_real(struct pickle_writer *p, const char *name, double number)
{
    pickle_put_text(p, name);
    pickle_put_real(p, number);
}

static void put_flag(struct pickle_writer *p, const char *name, int value)
{
    pickle_put_text(p, name);
    pickle_put_bool(p, value);
}

/* NULL: None */
static void put_words(struct pickle_writer *p, const char *name, const char *text)
{
    pickle_put_text(p, name);
    if (text)
        pickle_put_text(p, text);
    else
        pickle_put_none(p);
}

/* The properties whose arguments have the same values here and there. */
static void put_properties(const struct network *m, struct pickle_writer *p)
{
    for (const struct network_property *q = network_properties; q->name; q++) {
        double value = network_value(m, q);

        if (!q->megatron || !q->megatron[0])
            continue;
        if (q->type == PROPERTY_REAL)
            put_real(p, q->megatron, value);
        else if (q->type == PROPERTY_SIZE)
            put_whole(p, q->megatron, (int64_t)value);
        else
            put_flag(p, q->megatron, value != 0);
    }
}

static void put_sizes(const struct saving *s, struct pickle_writer *p)
{
    const struct network *m = &s->index->model.network;
    const struct model_shape *shape = &m->shape;

    put_flag(p, "group_query_attention", shape->query_groups != shape->heads);
    put_whole(p, "num_query_groups", shape->query_groups != shape->heads ? shape->query_groups : 1);
    put_whole(p, "seq_length", shape->sequence > 0 ? shape->sequence : m->positions);
    put_whole(p, "padded_vocab_size", s->split.model->padded_vocabulary);
    put_whole(p, "make_vocab_size_divisible_by", s->target->divisor);
    /* Megatron-LM compares the name if it is started with a vocabulary file. */
    put_words(p, "tokenizer_type",
              shape->vocabulary == GPT2_VOCABULARY ? "GPT2BPETokenizer" : NULL);
}

static void put_positions(const struct network *m, int interleaved, struct pickle_writer *p)
{
    put_words(p, "position_embedding_type",
              m->position == POSITION_LEARNED ? "learned_absolute"
              : m->position == POSITION_ROPE  ? "rope"
                                              : "none");
    put_flag(p, "add_position_embedding", 1);
    put_flag(p, "use_rotary_position_embeddings", m->position == POSITION_ROPE);
    put_whole(p, "rotary_base", llround(m->shape.rotary_base));
    put_flag(p, "rotary_interleaved", interleaved);
    put_flag(p, "use_rope_scaling",
             m->position == POSITION_ROPE && m->rope_scaling.kind == ROPE_LLAMA3);
    put_real(p, "rope_scaling_factor", m->rope_scaling.factor > 0 ? m->rope_scaling.factor : 8);
    pickle_put_text(p, "rotary_seq_len_interpolation_factor");
    if (m->position == POSITION_ROPE && m->rope_scaling.kind == ROPE_LINEAR)
        pickle_put_real(p, m->rope_scaling.factor);
    else
        pickle_put_none(p);
}

static void put_blocks(const struct network *m, struct pickle_writer *p)
{
    put_words(p, "normalization", m->norm == NORM_RMS ? "RMSNorm" : "LayerNorm");
    put_flag(p, "squared_relu", 0);
    put_flag(p, "qk_layernorm", 0);
    put_flag(p, "untie_embeddings_and_output_weights", !m->tied);
    put_flag(p, "add_qkv_bias", m->qkv_bias && !m->linear_bias);
}

/* No state of the optimizer or of random numbers is stored. */
static void put_run(const struct saving *s, struct pickle_writer *p)
{
    const struct progress *progress = &s->index->progress;
    int64_t tp = s->target->dist ? 1 : s->target->tp, pp = s->target->dist ? 1 : s->target->pp;

    put_whole(p, "tensor_model_parallel_size", tp);
    put_whole(p, "pipeline_model_parallel_size", pp);
    put_words(p, "virtual_pipeline_model_parallel_size", NULL);
    put_whole(p, "world_size", tp * pp);
    put_whole(p, "data_parallel_size", 1);
    put_flag(p, "data_parallel_random_init", 0);
    put_words(p, "num_experts", NULL);
    put_words(p, "ckpt_format", s->target->dist ? "torch_dist" : "torch");
    put_flag(p, "no_save_optim", 1);
    put_flag(p, "no_save_rng", 1);
    put_whole(p, "iteration", progress->iteration);
    put_whole(p, "consumed_train_samples", progress->consumed);
    put_whole(p, "consumed_valid_samples", progress->consumed_valid);
    put_flag(p, "bf16", s->target->type == TYPE_BF16);
    put_flag(p, "fp16", s->target->type == TYPE_FP16);
    pickle_put_text(p, "params_dtype");
    torch_put_type(p, s->target->type);
}

void saved_put_common(const struct saving *s, struct pickle_writer *p)
{
    pickle_put_text(p, "args");
    pickle_begin_object(p, "argparse", "Namespace");
    put_properties(&s->index->model.network, p);
    put_sizes(s, p);
    put_positions(&s->index->model.network, s->target->interleaved, p);
    put_blocks(&s->index->model.network, p);
    put_run(s, p);
    pickle_end_object(p);
    pickle_put_text(p, "checkpoint_version");
    pickle_put_real(p, 3);
    pickle_put_text(p, "iteration");
    pickle_put_integer(p, s->index->progress.iteration);
    pickle_put_text(p, "num_floating_point_operations_so_far");
    pickle_put_integer(p, 0);
}
