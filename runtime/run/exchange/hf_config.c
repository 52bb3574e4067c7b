/* SPDX-License-Identifier: Apache-2.0 */
#include "hf_config.h"
#include "base/core/storage.h"
#include "hf_families.h"
#include "hf_masked.h"
#include "run/checkpoint/directory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CONFIG_LIMIT ((size_t)16 << 20)

/* --- Reading ---------------------------------------------------------------------------------- */

static int refuse_type(const char *type, struct error *err)
{
    char known[256] = "";
    size_t used = 0;

    for (size_t i = 0; hf_family_at(i) && used < sizeof(known); i++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "",
                                 hf_family_at(i)->model_type);
    if (strcmp(type, "gemma3") == 0)
        return error_set(err, "model_type gemma3 has a vision tower, which is not supported; use a "
                              "text model (gemma3_text)");
    return error_set(err,
                     "model_type %.40s is not supported; use a model of one of these types: %s, "
                     "roberta, bert, megatron-bert",
                     type, known);
}

static int read_any(struct json_value root, struct network *c, struct error *err)
{
    struct json_value quantized;
    const struct hf_family *family;
    const char *type;
    int rc;

    if (hf_read_text(root, "model_type", "(none)", &type, err) < 0)
        return -1;
    family = hf_family_of_type(type);
    if (json_member(root, "quantization_config", &quantized) == 0 &&
        json_type(quantized) != JSON_NULL)
        return error_set(err, "quantized weights (quantization_config) are not supported; get the "
                              "unquantized weights");
    if (hf_keys_check(root, type, family && !family->fields, family ? family->name : type, err) < 0)
        return -1;
    if (hf_masked_is_type(type)) {
        rc = hf_masked_read(root, type, c, err);
    } else if (!family) {
        return refuse_type(type, err);
    } else {
        rc = hf_family_read(family, root, c, err);
    }
    if (rc == 0 && (c->shape.heads == 0 || c->shape.heads % c->shape.query_groups != 0))
        rc = error_set(
            err,
            "its number of attention heads is not a multiple of its number of key-value heads");
    if (rc == 0 && (!(c->shape.rotary_base > 0) || !(c->epsilon >= 0)))
        rc = error_set(
            err, "rope_theta must be greater than 0, and the norm epsilon must not be negative");
    return rc < 0 ? -1 : hf_read_real(root, "initializer_range", 0.02, &c->init_std, err);
}

int hf_config_read(const char *directory, struct model_config *config, struct error *err)
{
    struct network *c = &config->network;
    char path[PATH_MAX];
    struct json *json;
    int rc;

    memset(config, 0, sizeof(*config));
    if (directory_path(path, err, "%s/config.json", directory) < 0)
        return -1;
    errno = 0;
    json = json_read_file(path, CONFIG_LIMIT, err);
    if (!json)
        return file_path_error(err);
    rc = read_any(json_root(json), c, err);
    json_destroy(json);
    c->shape.name = "the model";
    c->shape.sequence = c->positions - c->position_offset;
    model_config_whole(config);
    if (rc < 0) {
        err->code = ERROR_USAGE;
        error_prefix(err, "%s", path);
        error_advise(err, "correct config.json, or copy the folder again from its source");
    }
    return rc;
}

/* --- Writing ---------------------------------------------------------------------------------- */

static void write_activation(const struct network *c, struct json_writer *json)
{
    const char *name = c->swiglu     ? c->gate == GATE_SILU ? "silu" : "gelu_pytorch_tanh"
                       : c->gelu_erf ? "gelu"
                                     : "gelu_new";

    json_put_string(json, c->position == POSITION_LEARNED ? "activation_function" : "hidden_act",
                    name);
    if (c->swiglu && c->gate != GATE_SILU)
        json_put_string(json, "hidden_activation", name);
}

static void write_decoder(const struct network *c, const struct hf_family *family,
                          struct json_writer *json)
{
    json_open(json, "architectures", '[');
    json_put_string(json, NULL, family->class);
    json_close(json);
    json_put_string(json, "model_type", family->model_type);
    write_activation(c, json);
    hf_fields_write(hf_family_fields(family), c, json);
    hf_write_rope_scaling(c, json);
    if (family->more)
        hf_fields_write(family->more, c, json);
    if (family->write)
        family->write(c, json);
    hf_write_real(json, "initializer_range", c->init_std);
    json_put_bool(json, "tie_word_embeddings", c->tied);
    /* If these tokens are not set, transformers uses those of the family's original vocabulary. In
     * another vocabulary they are arbitrary tokens, and texts would end there. */
    if (c->shape.vocabulary != family->vocabulary) {
        json_put_string(json, "bos_token_id", NULL);
        json_put_string(json, "eos_token_id", NULL);
    }
}

char *hf_config_text(const struct model_config *config, size_t *size, struct error *err)
{
    static const char *const types[] = {
        [TYPE_FP32] = "float32", [TYPE_BF16] = "bfloat16", [TYPE_FP16] = "float16"};
    struct json_writer json = {.spaced = true};
    struct hf_map map;

    if (hf_map_of(&config->network, &map, err) < 0)
        return NULL;
    json_open_lines(&json, NULL, '{');
    if (config->network.masked)
        hf_masked_write(&config->network, &json);
    else
        write_decoder(&config->network, map.family, &json);
    json_put_string(&json, "torch_dtype", types[config->numerics.type]);
    json_close(&json);
    json_end_line(&json);
    *size = json.size;
    return json.data;
}
