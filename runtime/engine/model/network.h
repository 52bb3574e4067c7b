/* SPDX-License-Identifier: Apache-2.0 */
/* A network: everything that decides what a model computes, and nothing about how it is computed
 * (see model_config.h). */
#ifndef MEGATRON_MODEL_NETWORK_H
#define MEGATRON_MODEL_NETWORK_H

#include "engine/device/device.h"
#include "lib/preset.h"

enum position_kind { POSITION_LEARNED, POSITION_ROPE, POSITION_NONE };

/* How rotations are scaled for longer sequences than a model was trained on. */
enum rope_kind {
    ROPE_PLAIN,
    ROPE_LLAMA3, /* low frequencies are divided by 'factor', with a transition */
    ROPE_LINEAR, /* all frequencies are divided by 'factor': position interpolation */
    ROPE_YARN,   /* low frequencies are divided by 'factor', with another transition */
};

struct rope_scaling {
    enum rope_kind kind;
    double factor;
    double low, high; /* ends of the transition; YaRN's beta_slow and beta_fast */
    double original;  /* sequence length that the model was trained on */
    double attention; /* YaRN: factor of sines and cosines; 0: derived from 'factor' */
};

/* Norms of queries and keys: of each head, or of all heads of a token together (OLMo 2). */
enum qk_norm { QK_NORM_NONE, QK_NORM_HEADS, QK_NORM_WHOLE };

/* Which side of attention and MLP has a norm: their input, their output before it is added to the
 * residual stream (OLMo 2), or both (Gemma 2 and 3). */
enum branch_norm { BRANCH_NORM_INPUT, BRANCH_NORM_OUTPUT, BRANCH_NORM_BOTH };

/* The Hugging Face architecture that weights came from: it names their tensors when they are
 * exported. Any: whichever fits. The values are stored in checkpoints: new ones go to the end. */
enum architecture {
    ARCHITECTURE_ANY,
    ARCHITECTURE_GPT2,
    ARCHITECTURE_LLAMA,
    ARCHITECTURE_MISTRAL,
    ARCHITECTURE_QWEN2,
    ARCHITECTURE_QWEN3,
    ARCHITECTURE_PHI3,
    ARCHITECTURE_GPT_NEOX,
    ARCHITECTURE_OLMO2,
    ARCHITECTURE_OLMO3,
    ARCHITECTURE_GEMMA,
    ARCHITECTURE_GEMMA2,
    ARCHITECTURE_GEMMA3,
    ARCHITECTURE_OLMO,
    ARCHITECTURES,
};

/* The members are listed and described in network_fields.def. */
struct network {
    struct model_shape shape; /* sequence is the length trained on */
    struct rope_scaling rope_scaling;
#define PROPERTY(type, member, ...) type member;
#include "network_fields.def"
};

enum {
    NETWORK_PROPERTIES = 0
#define PROPERTY(...) +1
#define PART(...)     +1
#include "network_fields.def"
};

enum property_type { PROPERTY_INT, PROPERTY_SIZE, PROPERTY_REAL };

/* What there is to know about a property; see network_fields.def. */
struct network_property {
    const char *name, *option, *needs, *refuses, *words, *megatron;
    enum property_type type; /* of the member: int, int64_t or double */
    size_t offset;
    double fallback, most;
    int loose;
};

/* All properties. The last row has no name. */
extern const struct network_property network_properties[];

double network_value(const struct network *network, const struct network_property *property);
void network_set(struct network *network, const struct network_property *property, double value);

/* The option that sets it, without dashes. */
const char *network_option(const struct network_property *property);

/* Set all properties to their defaults. */
void network_default(struct network *network);

/* Is every value in its range, and does no property need or refuse another? Sizes of tensors are
 * not checked. */
int network_check(const struct network *network, struct error *err);

/* Write what the property's value adds to the network, such as "soft cap on logits", into 'text'.
 * Returns 0 if the value is the default, or needs no mention. */
int network_describe(const struct network *network, const struct network_property *property,
                     char *text, size_t size);

/* The family that a network belongs to, as far as its blocks tell: checkpoints and options do not
 * name it. */
static inline enum model_family network_family(const struct network *network)
{
    if (network->masked)
        return !network->post_norm            ? MODEL_MEGATRON_BERT
               : network->position_offset > 0 ? MODEL_ROBERTA
                                              : MODEL_BERT;
    return network->swiglu ? MODEL_LLAMA : MODEL_GPT;
}

/* Do tokens in layer 'number' of the model see only a window? */
static inline int network_has_window(const struct network *network, int64_t number)
{
    return network->window > 0 &&
           (network->window_every == 0 || (number + 1) % network->window_every != 0);
}

#endif
