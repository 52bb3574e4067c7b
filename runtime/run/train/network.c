/* SPDX-License-Identifier: Apache-2.0 */
#include "network.h"
#include "run/checkpoint/directory.h"
#include "base/core/log.h"
#include "run/exchange/origin.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_SEQUENCE = 4096 };

enum kind { SIZE, REAL, FLAG, CHOICE };

/* One model option: the value given here, and the value in the weights. */
struct row {
    const char *name;
    enum kind kind;
    void *here;
    double there;
    int loose; /* may differ from the weights */
};

static double value_of(const struct row *row)
{
    return row->kind == SIZE   ? (double)*(const int64_t *)row->here
           : row->kind == REAL ? *(const double *)row->here
                               : (double)*(const int *)row->here;
}

static void set(const struct row *row)
{
    if (row->kind == SIZE)
        *(int64_t *)row->here = (int64_t)row->there;
    else if (row->kind == REAL)
        *(double *)row->here = row->there;
    else
        *(int *)row->here = (int)row->there;
}

/* Word 'number' of an option's choices. */
static void choice(const char *name, int number, char *text, size_t size)
{
    const char *word = "";

    for (const struct option *row = arguments_table; row->name; row++)
        if (row->type == OPTION_CHOICE && strcmp(row->name, name) == 0)
            word = row->choices;
    for (; number > 0 && strchr(word, '|'); number--)
        word = strchr(word, '|') + 1;
    snprintf(text, size, "%.*s", (int)strcspn(word, "|"), word);
}

static int contradiction(const struct arguments *a, const struct row *row, int by_preset,
                         const char *directory, struct error *err)
{
    char here[64], there[64];

    if (row->kind == CHOICE) {
        choice(row->name, (int)value_of(row), here, sizeof(here));
        choice(row->name, (int)row->there, there, sizeof(there));
    } else {
        snprintf(here, sizeof(here), "%.9g", value_of(row));
        snprintf(there, sizeof(there), "%.9g", row->there);
    }
    if (by_preset)
        return error_set(err,
                         "--megatron-model %s sets --%s to %s, but the weights in %s have %s; drop "
                         "it, the model configuration is taken from the weights",
                         a->model, row->name, here, directory, there);
    if (row->kind == FLAG)
        return error_set(err,
                         "--%s does not match the weights in %s; drop it, the model configuration "
                         "is taken from the weights",
                         row->name, directory);
    return error_set(err,
                     "--%s=%s does not match the weights in %s, which have %s; drop it, the model "
                     "configuration is taken from the weights",
                     row->name, here, directory, there);
}

static int take_rows(struct arguments *a, const struct options_result *given, struct row *rows,
                     size_t count, const char *directory, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct row *row = &rows[i];
        int told = options_given(given, row->name) ||
                   (row->here == &a->norm_epsilon && options_given(given, "layernorm-epsilon"));
        /* A preset sets sizes; sizes that were not set are negative. */
        int preset = !told && a->model && row->kind == SIZE && *(int64_t *)row->here >= 0 &&
                     strcmp(row->name, "vocab-size") != 0 &&
                     strncmp(row->name, "window-", strlen("window-")) != 0;

        if ((told || preset) && row->loose)
            continue;
        if ((told || preset) && value_of(row) != row->there) {
            if (!a->use_checkpoint_args)
                return contradiction(a, row, preset, directory, err);
            log_note("--use-checkpoint-args: --%s is taken from the checkpoint, not from the "
                     "command line",
                     row->name);
        }
        set(row);
    }
    return 0;
}

static int take(struct arguments *a, const struct options_result *given,
                const struct model_config *c, const char *directory, struct error *err)
{
    const struct model_shape *s = &c->network.shape;
    const struct rope_scaling *scaling = &c->network.rope_scaling;
    int learned = c->network.position == POSITION_LEARNED, yarn = scaling->kind == ROPE_YARN;
    struct row rows[] = {
        {"num-layers", SIZE, &a->num_layers, (double)s->layers, 0},
        {"hidden-size", SIZE, &a->hidden_size, (double)s->hidden, 0},
        {"ffn-hidden-size", SIZE, &a->ffn_hidden_size, (double)s->ffn_hidden, 0},
        {"num-attention-heads", SIZE, &a->num_attention_heads, (double)s->heads, 0},
        {"kv-channels", SIZE, &a->kv_channels, (double)s->kv_channels, 0},
        {"num-query-groups", SIZE, &a->num_query_groups, (double)s->query_groups, 0},
        {"vocab-size", SIZE, &a->vocab_size, (double)s->vocabulary, 0},
        {"max-position-embeddings", SIZE, &a->max_position_embeddings, (double)c->network.positions,
         !learned},
        {"masked-lm", FLAG, &a->masked, c->network.masked, 0},
        {"post-norm", FLAG, &a->post_norm, c->network.post_norm, 0},
        {"exact-gelu", FLAG, &a->gelu_erf, c->network.gelu_erf, 0},
        {"num-token-types", SIZE, &a->token_types, (double)c->network.token_types,
         c->network.token_types == 1},
        {"position-offset", SIZE, &a->position_offset, (double)c->network.position_offset, 0},
        {"seq-length", SIZE, &a->seq_length, (double)s->sequence, 1},
        {"position-embedding-type", CHOICE, &a->position_embedding,
         scaling->kind == ROPE_YARN ? POSITION_YARN : (double)c->network.position, 0},
        {"normalization", CHOICE, &a->normalization,
         c->network.norm == NORM_RMS ? NORMALIZATION_RMS : NORMALIZATION_LAYER, 0},
        {"swiglu", FLAG, &a->swiglu, c->network.swiglu && c->network.gate == GATE_SILU, 0},
        {"geglu", FLAG, &a->geglu, c->network.swiglu && c->network.gate == GATE_GELU_TANH, 0},
        {"quick-geglu", FLAG, &a->quick_geglu,
         c->network.swiglu && c->network.gate == GATE_QUICK_GELU, 0},
        {"squared-relu", FLAG, &a->squared_relu, c->network.activation == ACTIVATION_SQUARED_RELU,
         0},
        {"norm-placement", CHOICE, &a->blocks.branch_norm, c->network.branch_norm, 0},
        {"apply-layernorm-1p", FLAG, &a->blocks.layernorm_1p, c->network.layernorm_1p, 0},
        {"norm-without-weights", FLAG, &a->blocks.plain_norm, c->network.plain_norm, 0},
        {"use-parallel-residual", FLAG, &a->blocks.parallel_residual, c->network.parallel_residual,
         0},
        {"qk-layernorm", FLAG, &a->blocks.qk_norm, c->network.qk_norm == QK_NORM_HEADS, 0},
        {"qk-layernorm-whole", FLAG, &a->qk_norm_whole, c->network.qk_norm == QK_NORM_WHOLE, 0},
        {"clip-qkv", REAL, &a->blocks.qkv_clip, c->network.qkv_clip, 0},
        {"window-size", SIZE, &a->blocks.window, (double)c->network.window, 0},
        {"window-attn-skip-freq", SIZE, &a->blocks.window_every, (double)c->network.window_every,
         0},
        {"softmax-scale", REAL, &a->blocks.attention_scale, c->network.attention_scale, 0},
        {"attn-logit-softcapping", REAL, &a->blocks.attention_softcap, c->network.attention_softcap,
         0},
        {"final-logit-softcapping", REAL, &a->blocks.logit_softcap, c->network.logit_softcap, 0},
        {"embedding-scale", REAL, &a->blocks.embedding_scale, c->network.embedding_scale, 0},
        {"untie-embeddings-and-output-weights", FLAG, &a->untie, !c->network.tied, 0},
        {"disable-bias-linear", FLAG, &a->linear_bias, c->network.linear_bias, 0},
        {"add-qkv-bias", FLAG, &a->qkv_bias, c->network.qkv_bias, 0},
        {"use-rope-scaling", FLAG, &a->rope_scaling, scaling->kind == ROPE_LLAMA3, 0},
        {"rope-scaling-factor", REAL, &a->rope_scaling_factor,
         scaling->kind == ROPE_LLAMA3 ? scaling->factor : 8, 0},
        {"rotary-seq-len-interpolation-factor", REAL, &a->rotary_interpolation,
         scaling->kind == ROPE_LINEAR ? scaling->factor : 1, 0},
        {"yarn-rotary-scaling-factor", REAL, &a->yarn_factor, yarn ? scaling->factor : 0, 0},
        {"yarn-original-max-position-embeddings", REAL, &a->yarn_original,
         yarn ? scaling->original : 0, 0},
        {"yarn-beta-fast", REAL, &a->yarn_beta_fast, yarn ? scaling->high : 32, 0},
        {"yarn-beta-slow", REAL, &a->yarn_beta_slow, yarn ? scaling->low : 1, 0},
        {"rotary-base-local", REAL, &a->blocks.local_rotary_base, c->network.local_rotary_base, 0},
        {"rotary-base", REAL, &a->rotary_base, s->rotary_base, 0},
        {"rotary-percent", REAL, &a->rotary_percent, c->network.rotary_percent, 0},
        {"norm-epsilon", REAL, &a->norm_epsilon, c->network.epsilon, 0},
    };

    /* The ids of a NullTokenizer may be all that there is: these weights cannot end a document. */
    if (a->tokenizer_named && a->tokenizer.type == TOKENIZER_NULL &&
        s->vocabulary == a->vocab_size - 1)
        a->vocab_size = s->vocabulary;
    if (a->use_rotary && c->network.position != POSITION_ROPE)
        return error_set(err,
                         "--use-rotary-position-embeddings does not match the weights in %s, which "
                         "have no rotary embeddings; drop it",
                         directory);
    if (!options_given(given, "bert-no-binary-head") && !options_given(given, "bert-binary-head"))
        a->binary_head = c->network.binary_head;
    if (take_rows(a, given, rows, sizeof(rows) / sizeof(rows[0]), directory, err) < 0)
        return -1;
    /* The maximum length of a Hugging Face model can be far too long to train or evaluate with. */
    if (a->load_hf && !options_given(given, "seq-length") && !a->model &&
        a->seq_length > MOST_SEQUENCE)
        a->seq_length = MOST_SEQUENCE;
    a->group_query_attention = s->query_groups != s->heads;
    a->swiglu = c->network.swiglu;
    a->scaling = c->network.rope_scaling;
    a->blocks.architecture = c->network.architecture;
    if (!a->skip_train)
        return 0;
    a->hidden_dropout = a->attention_dropout = 0;
    if (a->micro_batch_size < 0)
        a->micro_batch_size = 1;
    return 0;
}

/* Does the run take its network from the checkpoint that it resumes from? Usually its options are
 * compared with the checkpoint while loading it. */
static int resumes_by_itself(const struct arguments *a)
{
    int64_t newest;

    int told = a->model || (a->num_layers > 0 && a->hidden_size > 0 && a->num_attention_heads > 0);

    if (!a->load || (told && !a->use_checkpoint_args))
        return 0;
    /* There may be no checkpoint yet, and a broken directory is reported by origin_read. */
    return directory_newest(a->load, -1, &newest, NULL) < 0 || newest >= 0 ||
           directory_has(a->load, "config.json");
}

int network_from_weights(struct arguments *a, const struct options_result *given, struct error *err)
{
    const char *directory = a->load ? a->load : a->load_hf;
    struct origin origin;
    struct stat status;

    if (!a->skip_train && !a->load_hf && !resumes_by_itself(a))
        return 0;
    /* A single safetensors file does not contain the model configuration. */
    if (!a->load && stat(directory, &status) == 0 && S_ISREG(status.st_mode))
        return 0;
    if (origin_read(&origin, directory, err) < 0)
        return error_prefix(err, a->load ? "--load" : "--load-hf");
    if (!a->load && origin.kind != ORIGIN_HF)
        return error_set(
            err, "--load-hf %s contains megatron checkpoints, not Hugging Face weights; use --load",
            directory);
    if (a->load && origin.kind == ORIGIN_HF) {
        a->load_hf = a->load;
        a->load = NULL;
        a->finetune = 0;
    }
    a->network_taken = 1;
    return take(a, given, &origin.model, directory, err);
}
