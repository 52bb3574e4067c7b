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

static int begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static int ends(const char *text, const char *with)
{
    size_t length = strlen(text), tail = strlen(with);

    return length >= tail && strcmp(text + length - tail, with) == 0;
}

static int has_parameter(const struct parameters *p, const char *name)
{
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->list[i].name, name) == 0)
            return 1;
    return 0;
}

/* Is it a tensor that a row of the table describes, and that the model has? */
static int is_known(const struct hf_name *table, const char *name, const struct parameters *p)
{
    char ours[HF_NAME];

    for (const struct hf_name *row = table; row->ours; row++) {
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

/* Tied embeddings that are stored twice must be equal. */
static int check_tied(const struct hf_name *table, const struct safetensors *tensors,
                      const struct safetensor *head, struct error *err)
{
    const struct safetensor *words = find_tensor(tensors, table->theirs);
    enum { PART = 4096 };
    float a[PART], b[PART];
    int same = words && words->data && head->data && words->rows == head->rows &&
               words->cols == head->cols;

    for (int64_t at = 0; same && at < words->rows * words->cols; at += PART) {
        int64_t left = words->rows * words->cols - at, count = left < PART ? left : PART;

        safetensor_read(words, at, 1, count, a);
        safetensor_read(head, at, 1, count, b);
        same = memcmp(a, b, (size_t)count * sizeof(*a)) == 0;
    }
    return same ? 0
                : error_set(err,
                            "%s differs from %s, but config.json says that they are tied; set "
                            "tie_word_embeddings to false if the model has both",
                            head->name, table->theirs);
}

static int check_tensor(const struct hf_map *map, const struct safetensors *tensors,
                        const struct safetensor *tensor, const struct model_config *config,
                        const struct parameters *p, struct error *err)
{
    static const char *const parts[] = {"model.", "transformer.", "gpt_neox.", "lm_head.",
                                        "embed_out."};
    static const char *const idle[] = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias",
                                       ".attention.bias", ".attention.masked_bias"};
    const struct hf_name *table = map->names;
    char name[sizeof(tensor->name) + sizeof(prefix)];
    int of_network = 0, harmless = 0;

    /* GPT-2's tensors may lack the model's name as a prefix. */
    snprintf(name, sizeof(name), "%s%s",
             map->family->architecture == ARCHITECTURE_GPT2 &&
                     (begins(tensor->name, "h.") || begins(tensor->name, "ln_f.") ||
                      begins(tensor->name, "wte.") || begins(tensor->name, "wpe."))
                 ? prefix
                 : "",
             tensor->name);
    for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++)
        of_network |= begins(name, parts[k]);
    for (size_t k = 0; k < sizeof(idle) / sizeof(idle[0]); k++)
        harmless |= ends(name, idle[k]);
    if (config->network.tied &&
        (strcmp(name, "lm_head.weight") == 0 || strcmp(name, "embed_out.weight") == 0))
        return check_tied(table, tensors, tensor, err);
    if (map->family->architecture == ARCHITECTURE_GPT_NEOX && strcmp(name, "lm_head.weight") == 0)
        return 0;
    if (of_network && !harmless && !is_known(table, name, p))
        return error_set(err, "tensor %s does not belong to the model that config.json describes",
                         tensor->name);
    return 0;
}

int hf_check_tensors(const struct hf_map *map, const struct safetensors *tensors,
                     const struct model_config *config, struct error *err)
{
    const struct layout one = {1, 1, 1, 1};
    const struct layout_position at = {0, 0, 0, 0};
    const struct safetensor *tensor;
    struct model_config whole = *config;
    struct parameters p;
    int rc = 0;

    if (config->network.masked)
        return hf_masked_check(map, tensors, &config->network, err);
    whole.split.chunks = 1;
    parameters_create(&p, &whole, &one, &at);
    for (size_t i = 0; rc == 0 && (tensor = safetensors_at(tensors, i)); i++)
        rc = check_tensor(map, tensors, tensor, config, &p, err);
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
