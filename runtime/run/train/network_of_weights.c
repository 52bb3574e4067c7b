/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"
#include "run/checkpoint/directory.h"
#include "base/core/log.h"
#include "run/exchange/origin.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_SEQUENCE = 4096 };

static const struct network_property *property_at(size_t offset)
{
    const struct network_property *p = network_properties;

    while (p->name && offsetof(struct arguments, model.network) + p->offset != offset)
        p++;
    return p->name ? p : NULL;
}

static int is_size(const struct option *row)
{
    return row->type == OPTION_INT || row->type == OPTION_LAYERS;
}

static double value_of(const struct option *row, const struct arguments *a)
{
    const char *at = (const char *)a + row->offset;

    return is_size(row)               ? (double)*(const int64_t *)at
           : row->type == OPTION_REAL ? *(const double *)at
           : row->type == OPTION_SET  ? *(const int *)at == (int)row->min
                                      : *(const int *)at;
}

static void set_value(const struct option *row, struct arguments *a, const struct arguments *from)
{
    size_t size = is_size(row)               ? sizeof(int64_t)
                  : row->type == OPTION_REAL ? sizeof(double)
                                             : sizeof(int);

    memcpy((char *)a + row->offset, (const char *)from + row->offset, size);
}

static void print_value(const struct option *row, const struct arguments *a, char *text,
                        size_t size)
{
    int length = 0;
    const char *word =
        row->type == OPTION_CHOICE ? option_word(row, (int)value_of(row, a), &length) : NULL;

    if (word)
        snprintf(text, size, "%.*s", length, word);
    else
        snprintf(text, size, "%.9g", value_of(row, a));
}

static int contradiction(const struct arguments *a, const struct arguments *weights,
                         const struct option *row, int by_preset, const char *directory,
                         struct error *err)
{
    char here[64], there[64];

    print_value(row, a, here, sizeof(here));
    print_value(row, weights, there, sizeof(there));
    if (by_preset)
        return error_set(err,
                         "--megatron-model %s sets --%s to %s, but the weights in %s have %s; drop "
                         "it, the model configuration is taken from the weights",
                         a->model.preset, row->name, here, directory, there);
    if (row->type == OPTION_FLAG || row->type == OPTION_UNFLAG || row->type == OPTION_SET)
        return error_set(err,
                         "--%s does not match the weights in %s; drop it, the model configuration "
                         "is taken from the weights",
                         row->name, directory);
    return error_set(err,
                     "--%s=%s does not match the weights in %s, which have %s; drop it, the model "
                     "configuration is taken from the weights",
                     row->name, here, directory, there);
}

/* May the option differ from the weights? */
static int is_loose(const struct option *row, const struct network *weights)
{
    const struct network_property *p = property_at(row->offset);

    if (strcmp(row->name, "max-position-embeddings") == 0)
        return weights->position != POSITION_LEARNED;
    if (strcmp(row->name, "num-token-types") == 0)
        return weights->token_types == 1;
    return (p && p->loose) || strstr(row->name, "binary-head");
}

/* Take one value from the weights, unless the command line sets another and may do so. */
static int take_row(struct arguments *a, const struct options_result *given,
                    const struct arguments *weights, const struct option *row,
                    const char *directory, struct error *err)
{
    /* Options that each set the value to another one count separately. */
    bool told =
        row->type == OPTION_SET ? options_given(given, row->name) : options_value_given(given, row);
    /* A preset sets sizes; sizes that were not set are negative. */
    bool preset = !told && a->model.preset && row->type == OPTION_INT && row->min > 0 &&
                  value_of(row, a) >= 0 && strcmp(row->name, "vocab-size") != 0;

    if ((told || preset) && is_loose(row, &weights->model.network))
        return 0;
    if ((told || preset) && value_of(row, a) != value_of(row, weights)) {
        if (!a->checkpoint.use_checkpoint_args)
            return contradiction(a, weights, row, preset, directory, err);
        log_note("--use-checkpoint-args: --%s is taken from the checkpoint, not from the command "
                 "line",
                 row->name);
    }
    /* Another of the options for this value may have been given. */
    if (row->type != OPTION_SET || told || value_of(row, weights) != value_of(row, a))
        set_value(row, a, weights);
    return 0;
}

/* The options that the weights were, or could have been, trained with. */
static void describe_weights(const struct arguments *a, const struct network *network,
                             struct arguments *weights)
{
    struct network_arguments *m = &weights->model;
    const struct rope_scaling *scaling = &network->rope_scaling;
    int yarn = scaling->kind == ROPE_YARN;

    *weights = *a;
    m->network = *network;
    m->position = yarn ? (int)POSITION_YARN : (int)network->position;
    m->gate = network->swiglu ? MLP_SWIGLU + (int)network->gate : MLP_PLAIN;
    m->rope_scaling = scaling->kind == ROPE_LLAMA3;
    m->rope_scaling_factor = scaling->kind == ROPE_LLAMA3 ? scaling->factor : 8;
    m->rotary_interpolation = scaling->kind == ROPE_LINEAR ? scaling->factor : 1;
    m->yarn_factor = yarn ? scaling->factor : 0;
    m->yarn_original = yarn ? scaling->original : 0;
    m->yarn_beta_fast = yarn ? scaling->high : 32;
    m->yarn_beta_slow = yarn ? scaling->low : 1;
}

/* Is it an option of the network: of a property, or of several together? Dropout and initialization
 * belong to training. */
static int is_of_network(const struct option *row)
{
    const struct network_property *p = property_at(row->offset);

    return row->type != OPTION_HEADING && row->type != OPTION_TEXT && row->type < OPTION_IGNORED &&
           row->offset < sizeof(struct network_arguments) &&
           !(p && p->loose && row->type == OPTION_REAL);
}

static int take(struct arguments *a, const struct options_result *given,
                const struct model_config *c, const char *directory, struct error *err)
{
    static const struct option window = {.name = "window-size",
                                         .type = OPTION_INT,
                                         .offset =
                                             offsetof(struct arguments, model.network.window)};
    const struct model_shape *s = &c->network.shape;
    struct network_arguments *m = &a->model;
    struct arguments weights;

    /* Weights may have no more than the ids of a NullTokenizer: they cannot end a document. */
    if (a->tokenizer_named && a->data.tokenizer.type == TOKENIZER_NULL &&
        s->vocabulary == m->network.shape.vocabulary - 1)
        m->network.shape.vocabulary = s->vocabulary;
    if (m->use_rotary && c->network.position != POSITION_ROPE)
        return error_set(err,
                         "--use-rotary-position-embeddings does not match the weights in %s, which "
                         "have no rotary embeddings; drop it",
                         directory);
    describe_weights(a, &c->network, &weights);
    for (const struct option *row = arguments_table; row->name; row++)
        if (is_of_network(row) && take_row(a, given, &weights, row, directory, err) < 0)
            return -1;
    if (take_row(a, given, &weights, &window, directory, err) < 0)
        return -1;
    /* The maximum length of a Hugging Face model can be far too long to train or evaluate with. */
    if (a->checkpoint.load_hf && !options_given(given, "seq-length") && !m->preset &&
        m->network.shape.sequence > MOST_SEQUENCE)
        m->network.shape.sequence = MOST_SEQUENCE;
    m->group_query_attention = s->query_groups != s->heads;
    m->network.rope_scaling = c->network.rope_scaling;
    m->network.architecture = c->network.architecture;
    if (!a->run.skip_train)
        return 0;
    m->network.hidden_dropout = m->network.attention_dropout = 0;
    if (a->run.micro_batch_size < 0)
        a->run.micro_batch_size = 1;
    return 0;
}

/* Does the run take its network from the checkpoint that it resumes from? Usually its options are
 * compared with the checkpoint while loading it. */
static int resumes_by_itself(const struct arguments *a)
{
    const struct model_shape *m = &a->model.network.shape;
    int64_t newest;
    int told = a->model.preset || (m->layers > 0 && m->hidden > 0 && m->heads > 0);

    if (!a->checkpoint.load || (told && !a->checkpoint.use_checkpoint_args))
        return 0;
    /* There may be no checkpoint yet, and a broken directory is reported by origin_read. */
    return directory_newest(a->checkpoint.load, -1, &newest, NULL) < 0 || newest >= 0 ||
           directory_has(a->checkpoint.load, "config.json");
}

int network_from_weights(struct arguments *a, const struct options_result *given, struct error *err)
{
    const char *directory = a->checkpoint.load ? a->checkpoint.load : a->checkpoint.load_hf;
    struct origin origin;
    struct stat status;

    if (!a->run.skip_train && !a->checkpoint.load_hf && !resumes_by_itself(a))
        return 0;
    /* A single safetensors file does not contain the model configuration. */
    if (!a->checkpoint.load && stat(directory, &status) == 0 && S_ISREG(status.st_mode))
        return 0;
    if (origin_read(&origin, directory, err) < 0)
        return error_prefix(err, a->checkpoint.load ? "--load" : "--load-hf");
    if (!a->checkpoint.load && origin.kind != ORIGIN_HF)
        return error_set(
            err, "--load-hf %s contains megatron checkpoints, not Hugging Face weights; use --load",
            directory);
    if (a->checkpoint.load && origin.kind == ORIGIN_HF) {
        a->checkpoint.load_hf = a->checkpoint.load;
        a->checkpoint.load = NULL;
        a->checkpoint.finetune = 0;
    }
    a->network_taken = 1;
    return take(a, given, &origin.model, directory, err);
}
