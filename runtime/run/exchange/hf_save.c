/* SPDX-License-Identifier: Apache-2.0 */
#include "hf.h"
#include "run/checkpoint/directory.h"
#include "base/core/half.h"
#include "hf_private.h"

#include <stdlib.h>
#include <string.h>

/* Does this rank write the parameter? Exactly one rank must. */
static int is_mine(const struct parallel *parallel, const struct parameter *p)
{
    return parallel->at.dp == 0 && parallel->at.cp == 0 && class_is_owned(p->class, &parallel->at);
}

static float value_at(const char *from, enum device_type type)
{
    uint16_t half;
    float value;

    if (type == TYPE_FP32) {
        memcpy(&value, from, sizeof(value));
        return value;
    }
    memcpy(&half, from, sizeof(half));
    return type == TYPE_BF16 ? bfloat_to_float(half) : half_to_float(half);
}

static void set_value(char *to, enum device_type type, float value)
{
    uint16_t half = type == TYPE_BF16 ? float_to_bfloat(value) : float_to_half(value);

    if (type == TYPE_FP32)
        memcpy(to, &value, sizeof(value));
    else
        memcpy(to, &half, sizeof(half));
}

/* hf_to_theirs for weights in the model's type. */
static void convert_weights(const struct hf_map *map, const struct parameter *p, char *weights,
                            enum device_type type)
{
    char theirs[HF_NAME];
    const struct hf_name *row = hf_find_name(map, p->name, theirs);

    for (int64_t i = 0; i < p->rows * p->cols && row && hf_offset(map, row) != 0; i++) {
        char *at = weights + (size_t)i * type_size(type);
        float value = value_at(at, type);

        hf_to_theirs(map, p, &value, 1);
        set_value(at, type, value);
    }
}

/* The weights of this rank in the model's type, in the order of the parameters. If the model keeps
 * some in fp8, all are taken from those in fp32. */
static char *copy_weights(const struct model_config *config, struct model *model,
                          struct device *device, struct error *err)
{
    const struct parameters *p = model_facts(model).parameters;
    int wide = config->numerics.fp8.gather;
    size_t size = type_size(config->numerics.type), from = wide ? sizeof(float) : size;
    char *host = device_host_allocate(device, (size_t)p->elements * from, err);

    if (!host)
        return NULL;
    device_copy(model_facts(model).stream, host,
                wide ? (void *)model_facts(model).start_weights : model_facts(model).weights,
                (size_t)p->elements * from, COPY_TO_HOST);
    if (device_stream_wait(model_facts(model).stream, 600, err) < 0) {
        device_host_release(device, host);
        return NULL;
    }
    for (int64_t i = 0; i < p->elements && wide; i++)
        set_value(host + (size_t)i * size, config->numerics.type,
                  value_at(host + (size_t)i * from, TYPE_FP32));
    return host;
}

static int save_parts(struct hf_files *files, const struct model_config *config,
                      struct model *model, const struct parallel *parallel, struct device *device,
                      struct error *err)
{
    const struct parameters *p = model_facts(model).parameters;
    size_t size = type_size(config->numerics.type);
    int mine = 0, rc;
    char *host;

    for (int i = 0; i < p->count; i++)
        mine += is_mine(parallel, &p->list[i]);
    if (mine == 0)
        return 0;
    host = copy_weights(config, model, device, err);
    rc = host ? 0 : -1;
    for (int i = 0; i < p->count && rc == 0; i++)
        if (is_mine(parallel, &p->list[i])) {
            char *weights = host + (size_t)p->list[i].offset * size;

            convert_weights(&files->map, &p->list[i], weights, config->numerics.type);
            rc = hf_files_write(files, &p->list[i], weights, err);
        }
    if (host)
        device_host_release(device, host);
    return rc;
}

/* All ranks get here, even after an error: returns -1 on all if one failed. */
static int agree(const struct parallel *parallel, int rc, struct error *err)
{
    int64_t bad = rc < 0 ? parallel->comm->rank : -1;
    struct error ignored;

    if (comm_host_max(parallel->comm, &bad, 1, rc < 0 ? &ignored : err) < 0)
        return -1;
    if (rc == 0 && bad >= 0)
        return error_set_code(
            err, ERROR_RANK,
            "rank %d could not write its part of the weights; see the output of that rank",
            (int)bad);
    return rc;
}

static int save_files(const char *directory, struct hf_files *files,
                      const struct model_config *config, struct model *model,
                      const struct parallel *parallel, struct device *device, struct error *err)
{
    int first = parallel->comm->rank == 0, rc = 0;
    struct error ignored;

    if (first)
        rc = directory_prepare(directory, err);
    if (rc == 0 && first)
        rc = hf_files_check(directory, config, err);
    if (rc == 0 && first)
        rc = hf_files_open(files, directory, 1, err);
    rc = agree(parallel, rc, err);
    if (rc == 0 && !first)
        rc = hf_files_open(files, directory, 0, err);
    if (rc == 0)
        rc = save_parts(files, config, model, parallel, device, err);
    if (hf_files_close(files, rc == 0 ? err : &ignored) < 0)
        rc = -1;
    rc = agree(parallel, rc, err);
    if (rc == 0 && first)
        rc = hf_files_commit(files, directory, config, err);
    if (rc < 0 && first)
        hf_files_abandon(files, directory);
    return agree(parallel, rc, err);
}

int hf_save(const char *directory, const struct model_config *config, struct model *model,
            const struct parallel *parallel, struct device *device, struct error *err)
{
    struct hf_files files;
    int rc = hf_files_plan(&files, config, HF_SHARD_BYTES, err);

    if (rc == 0)
        rc = save_files(directory, &files, config, model, parallel, device, err);
    hf_files_clear(&files);
    return rc;
}

int hf_save_check(const char *directory, const struct model_config *config, struct error *err)
{
    struct hf_files files;
    int rc = hf_files_plan(&files, config, HF_SHARD_BYTES, err);

    hf_files_clear(&files);
    if (rc < 0 || directory_prepare(directory, err) < 0)
        return -1;
    return hf_files_check(directory, config, err);
}
