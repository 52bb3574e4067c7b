/* SPDX-License-Identifier: Apache-2.0 */
/* The decoders of transformers that this program has. To add one: its value in enum architecture
 * (engine/model/network.h), its row in hf_families.c, and in hf_keys.c the settings of its
 * config.json that are refused. */
#ifndef MEGATRON_HF_FAMILIES_H
#define MEGATRON_HF_FAMILIES_H

#include "hf_fields.h"
#include "hf_private.h"

/* A value of a property of networks, which network_fields.def names. */
struct hf_value {
    const char *property;
    double value;
};

/* The value that Gemma has: the square root of the hidden size. */
#define HF_ROOT_OF_HIDDEN (-1.0)

struct hf_family {
    enum architecture architecture;
    const char *name;       /* "GPT-NeoX" */
    const char *model_type; /* in config.json */
    const char *class;      /* of transformers */
    int64_t vocabulary;     /* size of the usual one, whose special tokens are the defaults */

    /* How its models differ from Llama's (hf_fit.c): properties that all of them have, and the
     * names, separated by |, of those that some have, with any value that the readers accept. A
     * property in neither list is Llama's, so a model with another value of it does not fit. */
    const struct hf_value *has;
    const char *may_have;

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

/* hf_fit.c: set what all models of a family have, after the sizes. Llama's values are set first,
 * by hf_plain, before anything is read. */
void hf_plain(struct network *network);
void hf_family_set(const struct hf_family *family, struct network *network);

bool hf_family_may_have(const struct hf_family *family, const char *property);

/* The first property of the network that a model of this family cannot have; NULL: it fits. */
const struct network_property *hf_family_misfit(const struct hf_family *family,
                                                const struct network *network);

/* The same for any lists: properties in none of them have their default. */
const struct network_property *hf_misfit(const struct hf_value *plain, const struct hf_value *has,
                                         const char *may_have, const struct network *network);

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
