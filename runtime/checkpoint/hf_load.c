#include "hf.h"
#include "hf_private.h"

#include <string.h>

static const char prefix[] = "transformer.";

/* Their tensor for a parameter, with or without the name of the whole model before it. */
static const struct safetensor *find_tensor(const struct safetensors *tensors, const char *name)
{
    const struct safetensor *tensor = safetensors_find(tensors, name);

    if (!tensor && strncmp(name, prefix, strlen(prefix)) == 0)
        tensor = safetensors_find(tensors, name + strlen(prefix));
    return tensor;
}

int hf_load_one(const struct hf_name *table, const struct safetensors *tensors,
                const struct parameter *p, float *out, struct error *err)
{
    char theirs[HF_NAME];
    const struct hf_name *row = hf_find_name(table, p->name, theirs);
    const struct safetensor *tensor;
    int64_t rows, cols, step;

    if (!row)
        return error_set(err, "Hugging Face has no tensor for %s", p->name);
    tensor = find_tensor(tensors, theirs);
    if (!tensor)
        return error_set(err, "tensor %s is missing", theirs);
    hf_shape(row, p, &rows, &cols);
    if (tensor->rows != rows || tensor->cols != cols)
        return error_set(err, "tensor %s is %lld x %lld, and this model's is %lld x %lld", theirs,
                         (long long)tensor->rows, (long long)tensor->cols, (long long)rows,
                         (long long)cols);
    step = row->transposed && rows > 1 ? cols : 1;
    for (int64_t r = 0; r < hf_true_rows(p); r++)
        safetensor_read(tensor, hf_index(row, p, p->first_row + r, p->first_col), step, p->cols,
                        out + r * p->cols);
    return 0;
}

int hf_load(const char *path, const struct model_config *config, struct model *model,
            struct device *device, struct error *err)
{
    const struct parameters *p = model_parameters_of(model);
    const struct hf_name *table = hf_names_of(config, err);
    struct safetensors *tensors;
    size_t bytes = (size_t)p->elements * sizeof(float);
    float *host;
    int rc = 0;

    if (!table)
        return -1;
    tensors = safetensors_open(path, err);
    if (!tensors)
        return -1;
    host = device_host_allocate(device, bytes, err);
    if (!host) {
        safetensors_destroy(tensors);
        return -1;
    }
    memset(host, 0, bytes);
    for (int i = 0; i < p->count && rc == 0; i++)
        rc = hf_load_one(table, tensors, &p->list[i], host + p->list[i].offset, err);
    if (rc == 0) {
        device_copy(model_stream(model), model_gradients(model), host, bytes, COPY_TO_DEVICE);
        rc = device_stream_wait(model_stream(model), 600, err);
    } else {
        error_prefix(err, "%s", path);
    }
    device_host_release(device, host);
    safetensors_destroy(tensors);
    return rc;
}
