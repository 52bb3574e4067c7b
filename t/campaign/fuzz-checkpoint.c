/* libFuzzer target: hostile indices of checkpoints, files of tensors and Hugging Face
 * configurations. Whatever they hold, reading them ends with a result or an error with a sentence.
 * The first byte says which reader gets the rest. */
#include "checksum.h"
#include "hf_config.h"
#include "index.h"
#include "reshard.h"
#include "safetensors.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[64];

static void put(const char *name, const void *data, size_t size)
{
    char path[96];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
}

static void check(int failed, const struct error *err)
{
    if (failed && err->text[0] == '\0')
        abort();
}

/* Read the tensors of the checkpoint's own model as one rank. */
static void try_tensors(struct checkpoint_index *index)
{
    struct layout one = {1, 1, 1, 1};
    struct layout_position at = {0, 0, 0, 0};
    struct error err = {""};
    struct parameters p;
    struct pieces pieces;
    float *values;

    index->model.chunks = 1;
    index->model.padded_vocabulary = index->model.shape.vocabulary;
    if (index->model.shape.layers < 1 || index->model.shape.layers > 8 ||
        index_check_model(index, &index->model, &err) < 0)
        return;
    if (parameters_create(&p, &index->model, &one, &at, 1, &err) == 0 &&
        p.shard_elements < 1 << 20) {
        values = calloc((size_t)p.shard_elements + 1, sizeof(*values));
        if (values && pieces_create(&pieces, &p, &at, 0, PIECES_HELD, &err) == 0) {
            err.text[0] = '\0';
            check(reshard_read(directory, index, &p, &pieces, &values, 1, &err) < 0, &err);
        }
        pieces_destroy(&pieces);
        free(values);
    }
    parameters_destroy(&p);
}

/* An index with the right checksum. */
static void try_index(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 64);
    struct checkpoint_index index;
    struct error err = {""};
    int length;

    if (!text)
        abort();
    memcpy(text, data, size);
    length = sprintf(text + size, "\"checksum\": \"%016" PRIx64 "\"}\n", checksum_of(text, size));
    check(index_read(&index, text, size + (size_t)length, "index", &err) < 0, &err);
    if (err.text[0] == '\0')
        try_tensors(&index);
    index_clear(&index);
    free(text);
}

static void try_safetensors(const uint8_t *data, size_t size)
{
    struct error err = {""};
    struct safetensors *tensors;
    const struct safetensor *tensor;
    char path[96];
    volatile float sum = 0;

    put("model.safetensors", data, size);
    snprintf(path, sizeof(path), "%s/model.safetensors", directory);
    tensors = safetensors_open(path, &err);
    check(!tensors, &err);
    if (!tensors)
        return;
    tensor = safetensors_find(tensors, "a");
    for (int64_t i = 0; tensor && i < tensor->rows * tensor->cols; i++)
        sum += safetensor_value(tensor, i);
    safetensors_destroy(tensors);
}

static void try_config(const uint8_t *data, size_t size)
{
    struct model_config config;
    struct error err = {""};

    put("config.json", data, size);
    check(hf_config_read(directory, &config, &err) < 0, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (directory[0] == '\0') {
        snprintf(directory, sizeof(directory), "/dev/shm/megatron-fuzz-%ld", (long)getpid());
        mkdir(directory, 0700);
    }
    if (size == 0)
        return 0;
    if (data[0] % 3 == 0)
        try_index(data + 1, size - 1);
    else if (data[0] % 3 == 1)
        try_safetensors(data + 1, size - 1);
    else
        try_config(data + 1, size - 1);
    return 0;
}
