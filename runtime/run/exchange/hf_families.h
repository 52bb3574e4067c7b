/* SPDX-License-Identifier: Apache-2.0 */
/* The decoders of transformers that this program has. hf_families.c lists them: to add one, add its
 * row there. */
#ifndef MEGATRON_HF_FAMILIES_H
#define MEGATRON_HF_FAMILIES_H

#include "hf_fields.h"
#include "hf_private.h"

/* How a model differs from Llama: rotary positions, RMSNorm before each branch, SwiGLU, no biases,
 * untied embeddings. */
enum hf_feature {
    HF_LEARNED_POSITIONS = 1 << 0,
    HF_LAYER_NORM = 1 << 1,
    HF_NO_GATE = 1 << 2,
    HF_BIASES = 1 << 3,
    HF_TIED = 1 << 4,
    HF_GROUPED = 1 << 5, /* fewer key heads than query heads */
    HF_WIDE = 1 << 6,    /* all heads together are not as wide as the residual stream */
    HF_QKV_BIAS = 1 << 7,
    HF_QK_NORM = 1 << 8,
    HF_QK_NORM_ALL = 1 << 9, /* of all heads together */
    HF_WINDOW = 1 << 10,
    HF_SOME_WINDOWS = 1 << 11, /* not in all layers */
    HF_LOCAL_BASE = 1 << 12,
    HF_SCORES_CAPPED = 1 << 13,
    HF_SCALED_EMBEDDING = 1 << 14,
    HF_OUTPUT_NORM = 1 << 15,
    HF_BOTH_NORMS = 1 << 16,
    HF_PARALLEL = 1 << 17,
    HF_GEGLU = 1 << 18,
    HF_GELU_ERF = 1 << 19,
    HF_PARTIAL_ROTARY = 1 << 20,
    HF_SCORES_SCALED = 1 << 21,
    HF_UNKNOWN = 1 << 22, /* in no architecture */
    HF_PLAIN_NORM = 1 << 23,
    HF_CLIPPED = 1 << 24,
    HF_LOGITS_CAPPED = 1 << 25,
    HF_SCALED = 1 << 26,         /* scaled rotations */
    HF_SCALED_WINDOWS = 1 << 27, /* layers with a window have them as well */
    HF_PLAIN_WINDOWS = 1 << 28,  /* layers with a window do not */
};

/* Of OLMo 1's norms; its config.json does not have it. */
#define HF_OLMO_EPSILON 1e-5

struct hf_family {
    enum architecture architecture;
    const char *name;           /* "GPT-NeoX" */
    const char *model_type;     /* in config.json */
    const char *class;          /* of transformers */
    int64_t vocabulary;         /* size of the usual one, whose special tokens are the defaults */
    unsigned required, allowed; /* features */

    /* Tensors: a table (NULL: Llama's) and what differs from it. */
    const struct hf_name *names, *overrides;
    int minus_one; /* norm weights w are stored as w - 1 */

    /* config.json: settings that are members of a network (NULL: Llama's) and more of them, what
     * absent ones mean here, and functions for all others (NULL: Llama's, none). */
    const struct hf_field *fields, *more;
    struct hf_usual usual[8];
    int (*read)(const struct hf_family *family, struct json_value root, struct network *network,
                struct error *err);
    void (*write)(const struct network *network, struct json_writer *json);
};

const struct hf_family *hf_family_at(size_t index);
const struct hf_family *hf_family_of_type(const char *model_type);
const struct hf_name *hf_family_names(const struct hf_family *family);
const struct hf_field *hf_family_fields(const struct hf_family *family);

/* Read the settings of a family; those that it does not set are unchanged. Layers that its
 * architecture cannot have are an error. */
int hf_family_read(const struct hf_family *family, struct json_value root, struct network *network,
                   struct error *err);

/* hf_features.c: the features of a network, and a network with those of a family; the latter needs
 * the sizes. */
unsigned hf_features_of(const struct network *network);
void hf_features_set(unsigned features, struct network *network);

/* Has the network features that the family does not have, or the reverse? Returns 0, or -1 with the
 * setting that is wrong. */
int hf_family_check(const struct hf_family *family, const struct network *network,
                    struct error *err);

/* hf_rope.c: scaling, and in newer folders the base, of all layers or of layers with and without a
 * window. */
int hf_read_rope(const struct hf_family *family, struct json_value root, struct network *network,
                 struct error *err);
void hf_write_rope_scaling(const struct network *network, struct json_writer *json);

/* "rope_parameters": the rotations of layers without and with a window. */
void hf_write_rope_parameters(const struct network *network, struct json_writer *json);

/* The base of layers with a window. */
double hf_local_base(const struct network *network);

/* hf_windows.c: which layers have the window. By default it is every layer but those whose number
 * is a multiple of window_every. */
int hf_read_layer_types(struct json_value root, struct network *network, struct error *err);
void hf_write_layer_types(const struct network *network, struct json_writer *json);

/* Width and layers. transformers needs a number as the width of families whose layers are listed,
 * even if no layer uses it. */
int hf_read_window(const struct hf_family *family, struct json_value root, struct network *network,
                   struct error *err);
void hf_write_window_and_layers(const struct network *network, struct json_writer *json);

/* hf_keys.c: reject a config.json with settings of transformers that this program does not have.
 * 'name' is that of the architecture; 'decoder': it has Llama's settings. */
int hf_keys_check(struct json_value root, const char *model_type, int decoder, const char *name,
                  struct error *err);

#endif
