/* SPDX-License-Identifier: Apache-2.0 */
#include "hf.h"
#include "base/core/storage.h"
#include "hf_families.h"
#include "hf_masked.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char COPY_AGAIN[] = "copy the weights again from their source";

static const char prefix[] = "transformer.";

/* The Hugging Face tensor for a parameter, with or without the model's name as a prefix. GPT-NeoX's
 * head has two names. */
static const struct safetensor *find_tensor(const struct safetensors *tensors, const char *name)
{
    const struct safetensor *tensor = safetensors_find(tensors, name);

    if (!tensor && strncmp(name, prefix, strlen(prefix)) == 0)
        tensor = safetensors_find(tensors, name + strlen(prefix));
    if (!tensor && strcmp(name, "embed_out.weight") == 0)
        tensor = safetensors_find(tensors, "lm_head.weight");
    return tensor ? tensor : hf_masked_find_old(tensors, name);
}

int hf_load_one(const struct hf_map *map, const struct safetensors *tensors,
                const struct parameter *p, float *out, struct error *err)
{
    char theirs[HF_NAME];
    const struct hf_name *row = hf_find_name(map, p->name, theirs);
    const struct safetensor *tensor;
    int64_t rows, cols, step, together;
    int vector = p->all_rows == 1;

    if (!row)
        return error_set(err,
                         "Hugging Face's %s architecture has no equivalent of %s; drop the model "
                         "options that the weights do not have",
                         map->name, p->name);
    tensor = find_tensor(tensors, theirs);
    if (!tensor)
        return error_set(err, "tensor %s is missing; copy the checkpoint again", theirs);
    if (!tensor->data)
        return error_set(
            err,
            "tensor %s has type %s or is not a matrix or vector; convert it to F32, BF16 or F16",
            theirs, tensor->kind);
    hf_shape(map, row, p, &rows, &cols);
    if (tensor->rows != rows || tensor->cols != cols)
        return error_set(err,
                         "tensor %s is %lld x %lld, but this model expects %lld x %lld; use the "
                         "model options of the weights",
                         theirs, (long long)tensor->rows, (long long)tensor->cols, (long long)rows,
                         (long long)cols);
    step = row->how & HF_TRANSPOSED && !vector ? cols : 1;
    together = vector ? hf_adjacent(map, row, p) : p->cols;
    for (int64_t r = 0; r < hf_true_rows(p); r++)
        for (int64_t c = 0; c < p->cols; c += together)
            safetensor_read(tensor, hf_index(map, row, p, p->first_row + r, p->first_col + c), step,
                            p->cols - c < together ? p->cols - c : together, out + r * p->cols + c);
    for (int64_t i = 0; i < hf_true_rows(p) * p->cols && hf_offset(map, row) != 0; i++)
        out[i] -= (float)hf_offset(map, row);
    return 0;
}

void hf_to_theirs(const struct hf_map *map, const struct parameter *p, float *values, int64_t count)
{
    char theirs[HF_NAME];
    const struct hf_name *row = hf_find_name(map, p->name, theirs);

    for (int64_t i = 0; i < count && row && hf_offset(map, row) != 0; i++)
        values[i] += (float)hf_offset(map, row);
}

/* --- Unexpected tensors ---------------------------------------------------------------------- */

static int has_parameter(const struct parameters *p, const char *name)
{
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->list[i].name, name) == 0)
            return 1;
    return 0;
}

/* Is it a tensor that a row of the table describes, and that the model has? */
static int is_known(const struct hf_map *map, const char *name, const struct parameters *p)
{
    char ours[HF_NAME], whole[HF_NAME + sizeof(prefix)];

    if (map->family && map->family->architecture == ARCHITECTURE_GPT2 && !hf_begins(name, prefix)) {
        snprintf(whole, sizeof(whole), "%s%s", prefix, name);
        name = whole;
    }
    for (const struct hf_name *row = map->names; row->ours; row++) {
        const char *theirs = row->theirs, *number = strchr(theirs, '%');
        size_t head = number ? (size_t)(number - theirs) : 0;
        char *rest;
        long long layer;

        if (!number && strcmp(theirs, name) == 0 && has_parameter(p, row->ours))
            return 1;
        if (!number || strncmp(theirs, name, head) != 0 || name[head] < '0' || name[head] > '9')
            continue;
        layer = strtoll(name + head, &rest, 10);
        if (layer > INT32_MAX || strcmp(rest, number + 2) != 0)
            continue;
        snprintf(ours, sizeof(ours), row->ours, (int)layer);
        if (has_parameter(p, ours))
            return 1;
    }
    return 0;
}

/* Check one tensor of the files, with the return values of hf_masked_check. */
static int check_tensor(const struct hf_map *map, const struct safetensors *tensors,
                        const struct safetensor *tensor, const struct network *network,
                        struct error *err)
{
    static const char *const parts[] = {"model.",   "transformer.", "gpt_neox.",
                                        "lm_head.", "embed_out.",   "h.",
                                        "ln_f.",    "wte.",         "wpe."};
    static const char *const idle[] = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias",
                                       ".attention.bias", ".attention.masked_bias"};
    /* GPT-2's tensors may lack the model's name as a prefix. */
    size_t count = map->family->architecture == ARCHITECTURE_GPT2 ? 9 : 5;
    int head = strcmp(tensor->name, "lm_head.weight") == 0;

    /* Tied embeddings may be stored twice. */
    if (network->tied && (head || strcmp(tensor->name, "embed_out.weight") == 0)) {
        const struct safetensor *words = find_tensor(tensors, map->names->theirs);

        return words && safetensor_equal(words, tensor)
                   ? 0
                   : error_set(err,
                               "%s differs from %s, but config.json says that they are tied; set "
                               "tie_word_embeddings to false if the model has both",
                               tensor->name, map->names->theirs);
    }
    if (head && map->family->architecture == ARCHITECTURE_GPT_NEOX)
        return 0;
    for (size_t k = 0; k < sizeof(idle) / sizeof(idle[0]); k++)
        if (hf_ends(tensor->name, idle[k]))
            return 0;
    for (size_t k = 0; k < count; k++)
        if (hf_begins(tensor->name, parts[k]))
            return 1;
    return 0;
}

int hf_check_tensors(const struct hf_map *map, const struct safetensors *tensors,
                     const struct model_config *config, struct error *err)
{
    const struct layout one = {1, 1, 1, 1};
    const struct layout_position at = {0, 0, 0, 0};
    const struct network *network = &config->network;
    const struct safetensor *tensor;
    struct model_config whole = *config;
    struct parameters p;
    int rc = 0;

    whole.split.chunks = 1;
    parameters_create(&p, &whole, &one, &at);
    for (size_t i = 0; rc == 0 && (tensor = safetensors_at(tensors, i)); i++) {
        rc = network->masked ? hf_masked_check(map, tensors, tensor, network, err)
                             : check_tensor(map, tensors, tensor, network, err);
        if (rc > 0)
            rc = is_known(map, tensor->name, &p)
                     ? 0
                     : error_set(err,
                                 "tensor %s does not belong to the model that config.json "
                                 "describes",
                                 tensor->name);
    }
    parameters_destroy(&p);
    return rc;
}

int hf_load(const char *path, const struct model_config *config, struct model *model,
            struct device *device, struct error *err)
{
    const struct parameters *p = model_facts(model).parameters;
    struct safetensors *tensors;
    struct hf_map map;
    size_t bytes = (size_t)p->elements * sizeof(float);
    float *host;
    int rc = 0;

    if (hf_map_of(&config->network, &map, err) < 0)
        return error_advise(err, "use the model options of the weights");
    errno = 0;
    tensors = safetensors_open(path, err);
    if (!tensors)
        return file_path_error(err);
    if (hf_check_tensors(&map, tensors, config, err) < 0) {
        file_path_error(err);
        safetensors_destroy(tensors);
        error_prefix(err, "%s", path);
        return error_advise(err, COPY_AGAIN);
    }
    host = device_host_allocate(device, bytes, err);
    if (!host) {
        safetensors_destroy(tensors);
        return -1;
    }
    memset(host, 0, bytes);
    for (int i = 0; i < p->count && rc == 0; i++)
        rc = hf_load_one(&map, tensors, &p->list[i], host + p->list[i].offset, err);
    if (rc == 0) {
        device_copy(model_facts(model).stream, model_facts(model).start_weights, host, bytes,
                    COPY_TO_DEVICE);
        rc = device_stream_wait(model_facts(model).stream, 600, err);
    } else {
        file_path_error(err);
        error_prefix(err, "%s", path);
        error_advise(err, COPY_AGAIN);
    }
    device_host_release(device, host);
    safetensors_destroy(tensors);
    return rc;
}
