/* SPDX-License-Identifier: Apache-2.0 */
/* Sliding windows in config.json. */
#include "hf_families.h"

#include <string.h>

int hf_read_layer_types(struct json_value root, struct network *c, struct error *err)
{
    struct json_value list, value;
    struct json_iterator i;
    int64_t layer = 0;
    const char *type;
    size_t length;
    int windows = 0, rc = 0;

    if (json_member(root, "layer_types", &list) < 0 || json_type(list) == JSON_NULL)
        return 0;
    if (json_type(list) != JSON_ARRAY || json_iterate(list, &i) < 0)
        return error_set(err, "layer_types must be a list");
    c->window_every = 0;
    for (; json_next(&i, NULL, NULL, &value); layer++) {
        int has;

        if (json_string(value, &type, &length) < 0)
            return error_set(err, "layer_types must be a list of strings");
        has = strcmp(type, "sliding_attention") == 0;
        if (!has && strcmp(type, "full_attention") != 0)
            return error_set(
                err,
                "layer_types has layers that are not supported (%.40s), only sliding_attention and "
                "full_attention are; use another model",
                type);
        if (!has && c->window_every == 0)
            c->window_every = layer + 1;
        windows |= has;
        if (has != (c->window_every == 0 || (layer + 1) % c->window_every != 0))
            rc = -1;
    }
    if (layer != c->shape.layers)
        return error_set(err, "layer_types has %lld entries, but num_hidden_layers is %lld",
                         (long long)layer, (long long)c->shape.layers);
    if (!windows) {
        c->window = c->window_every = 0;
        return 0;
    }
    if (rc < 0)
        return error_set(
            err, "the order of layer_types is not supported, only a repeated pattern of "
                 "sliding-window layers and then one with full attention is; use another model");
    return c->window > 0 ? 0
                         : error_set(err, "layer_types has layers with sliding_attention, but the "
                                          "model has no sliding_window");
}

int hf_read_window(const struct hf_family *family, struct json_value root, struct network *c,
                   struct error *err)
{
    int64_t usual = (int64_t)hf_usual(family->usual, "sliding_window", 0);

    if (hf_is_null(root, "sliding_window"))
        usual = 0;
    if (hf_read_size(root, "sliding_window", usual, &c->window, err) < 0 ||
        hf_read_layer_types(root, c, err) < 0)
        return -1;
    /* No layer has rotations of its own. */
    if (c->window == 0 ||
        (c->rope_scaling.kind == ROPE_PLAIN && c->local_rotary_base == c->shape.rotary_base))
        c->local_rotary_base = 0;
    return 0;
}

void hf_write_window_and_layers(const struct network *c, struct json_writer *json)
{
    json_put_integer(json, "sliding_window", c->window > 0 ? c->window : 4096);
    hf_write_layer_types(c, json);
}

void hf_write_layer_types(const struct network *c, struct json_writer *json)
{
    json_open(json, "layer_types", '[');
    for (int64_t i = 0; i < c->shape.layers; i++)
        json_put_string(json, NULL,
                        network_has_window(c, i) ? "sliding_attention" : "full_attention");
    json_close(json);
}
