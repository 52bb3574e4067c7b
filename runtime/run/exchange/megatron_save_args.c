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
                         "a Megatron-LM export does not support the model's %s; export it in the "
                         "Hugging Face format",
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

/* The properties whose arguments have the same values here and there. */
static void put_properties(const struct network *m, struct pickle_writer *p)
{
    for (const struct network_property *q = network_properties; q->name; q++) {
        double value = network_value(m, q);

        if (!q->megatron || !q->megatron[0])
            continue;
        if (q->type == PROPERTY_REAL)
            pickle_put_real(p, q->megatron, value);
        else if (q->type == PROPERTY_SIZE)
            pickle_put_integer(p, q->megatron, (int64_t)value);
        else
            pickle_put_bool(p, q->megatron, value != 0);
    }
}

static void put_sizes(const struct saving *s, struct pickle_writer *p)
{
    const struct network *m = &s->index->model.network;
    const struct model_shape *shape = &m->shape;

    pickle_put_bool(p, "group_query_attention", shape->query_groups != shape->heads);
    pickle_put_integer(p, "num_query_groups",
                       shape->query_groups != shape->heads ? shape->query_groups : 1);
    pickle_put_integer(p, "seq_length", shape->sequence > 0 ? shape->sequence : m->positions);
    pickle_put_integer(p, "padded_vocab_size", s->split.model->padded_vocabulary);
    pickle_put_integer(p, "make_vocab_size_divisible_by", s->target->divisor);
    /* Megatron-LM compares the name if it is started with a vocabulary file. */
    pickle_put_text(p, "tokenizer_type",
                    shape->vocabulary == GPT2_VOCABULARY ? "GPT2BPETokenizer" : NULL);
}

static void put_positions(const struct network *m, int interleaved, struct pickle_writer *p)
{
    pickle_put_text(p, "position_embedding_type",
                    m->position == POSITION_LEARNED ? "learned_absolute"
                    : m->position == POSITION_ROPE  ? "rope"
                                                    : "none");
    pickle_put_bool(p, "add_position_embedding", 1);
    pickle_put_bool(p, "use_rotary_position_embeddings", m->position == POSITION_ROPE);
    pickle_put_integer(p, "rotary_base", llround(m->shape.rotary_base));
    pickle_put_bool(p, "rotary_interleaved", interleaved);
    pickle_put_bool(p, "use_rope_scaling",
                    m->position == POSITION_ROPE && m->rope_scaling.kind == ROPE_LLAMA3);
    pickle_put_real(p, "rope_scaling_factor",
                    m->rope_scaling.factor > 0 ? m->rope_scaling.factor : 8);
    if (m->position == POSITION_ROPE && m->rope_scaling.kind == ROPE_LINEAR)
        pickle_put_real(p, "rotary_seq_len_interpolation_factor", m->rope_scaling.factor);
    else
        pickle_put_text(p, "rotary_seq_len_interpolation_factor", NULL);
}

static void put_blocks(const struct network *m, struct pickle_writer *p)
{
    pickle_put_text(p, "normalization", m->norm == NORM_RMS ? "RMSNorm" : "LayerNorm");
    pickle_put_bool(p, "squared_relu", 0);
    pickle_put_bool(p, "qk_layernorm", 0);
    pickle_put_bool(p, "untie_embeddings_and_output_weights", !m->tied);
    pickle_put_bool(p, "add_qkv_bias", m->qkv_bias && !m->linear_bias);
}

/* No state of the optimizer or of random numbers is stored. */
static void put_run(const struct saving *s, struct pickle_writer *p)
{
    const struct progress *progress = &s->index->progress;
    int64_t tp = s->target->dist ? 1 : s->target->tp, pp = s->target->dist ? 1 : s->target->pp;

    pickle_put_integer(p, "tensor_model_parallel_size", tp);
    pickle_put_integer(p, "pipeline_model_parallel_size", pp);
    pickle_put_text(p, "virtual_pipeline_model_parallel_size", NULL);
    pickle_put_integer(p, "world_size", tp * pp);
    pickle_put_integer(p, "data_parallel_size", 1);
    pickle_put_bool(p, "data_parallel_random_init", 0);
    pickle_put_text(p, "num_experts", NULL);
    pickle_put_text(p, "ckpt_format", s->target->dist ? "torch_dist" : "torch");
    pickle_put_bool(p, "no_save_optim", 1);
    pickle_put_bool(p, "no_save_rng", 1);
    pickle_put_integer(p, "iteration", progress->iteration);
    pickle_put_integer(p, "consumed_train_samples", progress->consumed);
    pickle_put_integer(p, "consumed_valid_samples", progress->consumed_valid);
    pickle_put_bool(p, "bf16", s->target->type == TYPE_BF16);
    pickle_put_bool(p, "fp16", s->target->type == TYPE_FP16);
    pickle_put_name(p, "params_dtype");
    torch_put_type(p, s->target->type);
}

void saved_put_common(const struct saving *s, struct pickle_writer *p)
{
    pickle_begin_object(p, "args", "argparse", "Namespace");
    put_properties(&s->index->model.network, p);
    put_sizes(s, p);
    put_positions(&s->index->model.network, s->target->interleaved, p);
    put_blocks(&s->index->model.network, p);
    put_run(s, p);
    pickle_end_object(p);
    pickle_put_real(p, "checkpoint_version", 3);
    pickle_put_integer(p, "iteration", s->index->progress.iteration);
    pickle_put_integer(p, "num_floating_point_operations_so_far", 0);
}
