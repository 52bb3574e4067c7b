/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: hostile checkpoint indices, tensor files, Hugging Face configurations and
 * indices, pickles, torch.save files and distributed checkpoints. Whatever they contain, reading
 * them must return a result or an error with a sentence. The first byte selects the reader of the
 * rest. */
#include "fuzz.h"
#include "lib/checksum.h"
#include "run/exchange/hf_config.h"
#include "run/checkpoint/index.h"
#include "run/exchange/megatron_source.h"
#include "run/checkpoint/reshard.h"
#include "run/exchange/safetensors.h"
#include "run/exchange/torch_file.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64];

/* A tensor file as described by the index, with the right checksums. */
static void make_file(struct index_file *file, int arrays)
{
    size_t bytes = (size_t)file->elements * 4 * (size_t)arrays;
    size_t count = (size_t)shard_blocks((int64_t)bytes), whole = (size_t)file->data + bytes;
    struct checksum sum;
    char *text, name[40];

    if (file->data > 1 << 16 || file->elements > 1 << 18)
        return;
    text = calloc(whole + 8 * count + 1, 1);
    if (!text)
        abort();
    for (size_t i = 0; i < bytes; i++)
        text[(size_t)file->data + i] = (char)(i * 7);
    for (size_t i = 0; i < count; i++) {
        size_t size = bytes - i * SHARD_BLOCK < SHARD_BLOCK ? bytes - i * SHARD_BLOCK : SHARD_BLOCK;
        uint64_t number = checksum_of(text + file->data + i * SHARD_BLOCK, size);

        memcpy(text + whole + 8 * i, &number, 8);
    }
    file->bytes = (int64_t)(whole + 8 * count);
    checksum_begin(&sum);
    checksum_add(&sum, text, (size_t)file->data);
    checksum_add(&sum, text + whole, 8 * count);
    file->checksum = checksum_end(&sum);
    snprintf(name, sizeof(name), "/%s", file->name);
    fuzz_put(directory, name, text, (size_t)file->bytes);
    free(text);
}

/* Read the tensors of the checkpoint's own model as one rank. */
static void try_tensors(struct checkpoint_index *index)
{
    struct layout one = {1, 1, 1, 1};
    struct layout_position at = {0, 0, 0, 0};
    struct error err = {.text = ""};
    struct parameters p;
    struct pieces pieces;
    float *values;

    index->model.split.chunks = 1;
    index->model.padded_vocabulary = index->model.network.shape.vocabulary;
    if (index->model.network.shape.layers < 1 || index->model.network.shape.layers > 8 ||
        index_check_model(index, &index->model, &err) < 0)
        return;
    parameters_create(&p, &index->model, &one, &at);
    if (p.shard_elements < 1 << 20) {
        values = calloc((size_t)p.shard_elements + 1, sizeof(*values));
        if (values) {
            pieces_create(&pieces, &p, &at, 0, PIECES_HELD);
            for (int i = 0; i < index->file_count && i < 3; i++)
                make_file(&index->files[i], index->arrays);
            err.text[0] = '\0';
            fuzz_check(reshard_read(directory, index, &p, &pieces, &values, 1, &err) < 0, &err);
            pieces_destroy(&pieces);
        }
        free(values);
    }
    parameters_destroy(&p);
}

/* An index with the right checksum. */
static void try_index(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 64);
    struct checkpoint_index index;
    struct error err = {.text = ""};
    int length;

    if (!text)
        abort();
    memcpy(text, data, size);
    length = sprintf(text + size, "\"checksum\": \"%016" PRIx64 "\"}\n", checksum_of(text, size));
    fuzz_check(index_read(&index, text, size + (size_t)length, "index", &err) < 0, &err);
    if (err.text[0] == '\0')
        try_tensors(&index);
    index_clear(&index);
    free(text);
}

static void read_tensors(const char *name)
{
    struct error err = {.text = ""};
    struct safetensors *tensors;
    const struct safetensor *tensor;
    char path[96];
    float value;
    volatile float sum = 0;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    tensors = safetensors_open(path, &err);
    fuzz_check(!tensors, &err);
    if (!tensors)
        return;
    tensor = safetensors_find(tensors, "a");
    for (int64_t i = 0; tensor && i < tensor->rows * tensor->cols; i++) {
        safetensor_read(tensor, i, 1, 1, &value);
        sum += value;
    }
    safetensors_destroy(tensors);
}

static void try_safetensors(const uint8_t *data, size_t size)
{
    fuzz_put(directory, "/model.safetensors", data, size);
    read_tensors("model.safetensors");
    /* The same as one of several ranks. */
    fuzz_put(directory, "/parts/model.safetensors", data, size);
}

/* An index of several files, one of which exists. */
static void try_parts(const uint8_t *data, size_t size)
{
    fuzz_put(directory, "/parts/model.safetensors.index.json", data, size);
    read_tensors("parts");
}

static void try_config(const uint8_t *data, size_t size)
{
    struct model_config config;
    struct error err = {.text = ""};

    fuzz_put(directory, "/config.json", data, size);
    fuzz_check(hf_config_read(directory, &config, &err) < 0, &err);
}

/* Touch every element of a small tensor. */
static void read_torch(struct torch_file *file, const struct pickle_value *value)
{
    struct error err = {.text = ""};
    struct torch_tensor t;
    float row[64];

    if (torch_file_tensor(file, value, &t, &err) < 0) {
        fuzz_check(1, &err);
        return;
    }
    if (t.dimensions < 1 || t.dimensions > 2 || t.shape[0] > 4096)
        return;
    for (int64_t r = 0; r < (t.dimensions == 2 ? t.shape[0] : 1); r++)
        for (int64_t c = 0, cols = t.shape[t.dimensions - 1]; c < cols && c < 4096; c += 64)
            torch_tensor_read(&t, r, c, cols - c < 64 ? cols - c : 64, row);
}

/* Everything reachable through dicts and lists, down to some depth: there may be cycles. */
static void walk(struct torch_file *file, const struct pickle_value *value, int depth, int *budget)
{
    if (!value || depth > 6 || --*budget < 0)
        return;
    read_torch(file, value);
    if (value->type == PICKLE_LIST || value->type == PICKLE_DICT)
        for (size_t i = 0; i < value->count; i++)
            walk(file, value->items[i], depth + 1, budget);
    if (value->type == PICKLE_OBJECT) {
        walk(file, value->arguments, depth + 1, budget);
        walk(file, value->state, depth + 1, budget);
    }
}

static void try_torch(const uint8_t *data, size_t size)
{
    struct error err = {.text = ""};
    struct torch_file *file = torch_file_read(data, size, &err);
    int budget = 5000;

    fuzz_check(!file, &err);
    if (file)
        walk(file, torch_file_root(file), 0, &budget);
    torch_file_destroy(file);
}

/* A pickle alone, and as the body of a stream without storages. */
static void try_pickle(const uint8_t *data, size_t size)
{
    static const char head[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                               "\x80\x02M\xe9\x03.\x80\x02}.";
    static const char tail[] = "\x80\x02].";
    struct error err = {.text = ""};
    struct pickle *pickle;
    size_t used;
    uint8_t *stream;

    pickle = pickle_read(data, size, &used, &err);
    fuzz_check(!pickle, &err);
    if (!pickle)
        return;
    pickle_destroy(pickle);
    stream = malloc(sizeof(head) + used + sizeof(tail));
    if (!stream)
        abort();
    memcpy(stream, head, sizeof(head) - 1);
    memcpy(stream + sizeof(head) - 1, data, used);
    memcpy(stream + sizeof(head) - 1 + used, tail, sizeof(tail) - 1);
    try_torch(stream, sizeof(head) - 1 + used + sizeof(tail) - 1);
    free(stream);
}

/* A Megatron-LM checkpoint: the model it claims to be, and all of its tensors. */
static void read_megatron(const char *path)
{
    struct megatron_hints hints = {2, 0};
    struct megatron_source *source;
    struct layout one = {1, 1, 1, 1};
    struct layout_position at = {0, 0, 0, 0};
    struct error err = {.text = ""};
    struct parameters p;
    float *values;

    source = megatron_source_open(path, &hints, &err);
    fuzz_check(!source, &err);
    if (!source)
        return;
    const struct model_shape *s = &megatron_source_model(source)->network.shape;
    if (s->layers <= 8 && s->hidden <= 256 && s->ffn_hidden <= 1024 && s->vocabulary <= 4096 &&
        s->heads * s->kv_channels <= 1024 &&
        megatron_source_model(source)->network.positions <= 4096) {
        parameters_create(&p, megatron_source_model(source), &one, &at);
        for (int i = 0; i < p.count; i++) {
            values = malloc((size_t)(p.list[i].rows * p.list[i].cols) * sizeof(*values));
            err.text[0] = '\0';
            fuzz_check(values && megatron_source_load(source, &p.list[i], values, &err) < 0, &err);
            free(values);
        }
        parameters_destroy(&p);
    }
    megatron_source_destroy(source);
}

static void try_megatron(const uint8_t *data, size_t size)
{
    char path[96];

    fuzz_put(directory, "/rank.pt", data, size);
    snprintf(path, sizeof(path), "%s/rank.pt", directory);
    read_megatron(path);
}

/* A distributed checkpoint: two bytes with the length of .metadata, it, and the only file. */
static void try_dist(const uint8_t *data, size_t size)
{
    size_t length = size < 2 ? 0 : data[0] | (size_t)data[1] << 8;
    char path[96];

    if (size < 2)
        return;
    length = length < size - 2 ? length : size - 2;
    fuzz_put(directory, "/dist/.metadata", data + 2, length);
    fuzz_put(directory, "/dist/__0_0.distcp", data + 2 + length, size - 2 - length);
    snprintf(path, sizeof(path), "%s/dist", directory);
    read_megatron(path);
}

static struct {
    const char *name;
    void (*read)(const uint8_t *, size_t);
    unsigned long inputs;
} readers[] = {
    {"index", try_index, 0},       {"safetensors", try_safetensors, 0},
    {"config", try_config, 0},     {"parts", try_parts, 0},
    {"torch", try_torch, 0},       {"pickle", try_pickle, 0},
    {"megatron", try_megatron, 0}, {"dist", try_dist, 0},
};

static void print_inputs(void)
{
    fprintf(stderr, "inputs of each reader:");
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++)
        fprintf(stderr, " %s %lu", readers[i].name, readers[i].inputs);
    fprintf(stderr, "\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t reader = size > 0 ? data[0] % (sizeof(readers) / sizeof(readers[0])) : 0;
    char path[96];

    if (directory[0] == '\0') {
        atexit(print_inputs);
        snprintf(directory, sizeof(directory), "%s/%ld", fuzz_place(), (long)getpid());
        mkdir(directory, 0700);
        snprintf(path, sizeof(path), "%s/parts", directory);
        mkdir(path, 0700);
        snprintf(path, sizeof(path), "%s/dist", directory);
        mkdir(path, 0700);
    }
    if (size == 0)
        return 0;
    readers[reader].inputs++;
    readers[reader].read(data + 1, size - 1);
    return 0;
}
