/* SPDX-License-Identifier: Apache-2.0 */
/* Every family of Hugging Face models against transformers. families/NAME.json has a small model:
 * its configuration, its tensors, and what transformers computes with made-up weights (see
 * t/peers/hf-families). Here the same weights are imported, and the losses of a forward pass, the
 * gradients of a backward pass, the logits of generating token by token and the exported weights
 * must agree. */
#include "tap.h"
#include "run/exchange/convert.h"
#include "run/checkpoint/directory.h"
#include "base/core/half.h"
#include "run/exchange/hf.h"
#include "run/exchange/hf_config.h"
#include "base/core/json.h"
#include "run/exchange/safetensors.h"

#include <errno.h>
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LENGTH = 12, VOCABULARY = 40, CACHE = 16 };

static char scratch[] = "/tmp/megatron-families-XXXXXX";
static struct device *device;
static struct parallel parallel;

static void bail(const struct error *err)
{
    printf("Bail out! %s\n", err->text);
    exit(1);
}

/* Pseudo-random multiples of 2^-11 in [-1, 1). */
static float number(const char *name, const char *tail, uint32_t i)
{
    uint32_t x = 2166136261u;

    for (; *name; name++)
        x = (x ^ (uint8_t)*name) * 16777619u;
    for (; *tail; tail++)
        x = (x ^ (uint8_t)*tail) * 16777619u;
    x += i * 2654435761u;
    x = (x ^ x >> 16) * 2246822519u;
    x = (x ^ x >> 13) * 3266489917u;
    x ^= x >> 16;
    return (float)(x >> 20) / 2048 - 1;
}

/* The weight that transformers had. Gemma's norms are around 0. */
static float weight_of(const char *name, uint32_t i, int gemma)
{
    size_t length = strlen(name);
    int bias = length > 4 && strcmp(name + length - 4, "bias") == 0;
    float v = number(name, "", i);

    if (strstr(name, "norm"))
        return v * 0.25f + (gemma || bias ? 0.0f : 1.0f);
    return v * (strstr(name, "embed") ? 0.5f : 0.375f);
}

/* One entry of "tensors": name, shape of one or two numbers, gradient. */
struct expected {
    const char *name;
    int64_t rows, cols; /* rows 0: a vector */
    double gradient;
};

static struct expected expected_of(struct json_value entry)
{
    struct expected e = {0};
    struct json_value value;
    struct json_iterator i;
    double numbers[3] = {0};
    size_t length, count = 0;

    json_iterate(entry, &i);
    json_next(&i, NULL, NULL, &value);
    json_string(value, &e.name, &length);
    while (count < 3 && json_next(&i, NULL, NULL, &value))
        json_real(value, &numbers[count++]);
    e.rows = count == 3 ? (int64_t)numbers[0] : 0;
    e.cols = (int64_t)numbers[count - 2];
    e.gradient = numbers[count - 1];
    return e;
}

static struct json_value member(struct json_value object, const char *name)
{
    struct json_value value;

    if (json_member(object, name, &value) < 0) {
        printf("Bail out! no %s\n", name);
        exit(1);
    }
    return value;
}

static void numbers_of(struct json_value root, const char *name, double *out, int count)
{
    struct json_value value;
    struct json_iterator i;

    json_iterate(member(root, name), &i);
    for (int n = 0; n < count && json_next(&i, NULL, NULL, &value); n++)
        json_real(value, &out[n]);
}

/* The text of config.json: what stands between "config": and the next member. */
static void write_config(const char *path, const char *text)
{
    const char *begin = strstr(text, "{\"config\": "), *end = strstr(text, ",\n\"tensors\"");
    FILE *f = fopen(path, "w");

    if (!f || !begin || !end) {
        printf("Bail out! cannot write %s\n", path);
        exit(1);
    }
    begin += strlen("{\"config\": ");
    fwrite(begin, 1, (size_t)(end - begin), f);
    fclose(f);
}

/* Finite numbers of all magnitudes, of both signs, and zeros of both. */
static float any_number(const char *name, uint32_t i)
{
    union {
        uint32_t bits;
        float value;
    } u = {(i + 1) * 2654435761u ^ (uint32_t)strlen(name) * 40503u};

    if (i < 2)
        return i ? -0.0f : 0.0f;
    return isfinite(u.value) ? u.value : 1e-30f;
}

/* The weights that transformers had, or with 'any' numbers of all kinds. */
static void write_weights(const char *path, struct json_value root, int gemma, int any,
                          enum device_type type)
{
    struct safetensors_layout layout = {.type = type};
    struct json_value value;
    struct json_iterator i;
    struct error err;
    FILE *f = fopen(path, "w");

    json_iterate(member(root, "tensors"), &i);
    while (json_next(&i, NULL, NULL, &value)) {
        struct expected e = expected_of(value);

        safetensors_layout_add(&layout, e.name, e.rows, e.cols);
    }
    safetensors_layout_finish(&layout);
    if (!f) {
        error_set_errno(&err, errno, "cannot create %s", path);
        bail(&err);
    }
    fwrite(layout.header, 1, layout.header_bytes, f);
    for (size_t t = 0; t < layout.count; t++) {
        const struct safetensors_entry *e = &layout.entries[t];

        for (int64_t n = 0; n < (e->rows ? e->rows : 1) * e->cols; n++) {
            float v =
                any ? any_number(e->name, (uint32_t)n) : weight_of(e->name, (uint32_t)n, gemma);
            uint16_t half = float_to_bfloat(v);

            if (type == TYPE_BF16)
                fwrite(&half, sizeof(half), 1, f);
            else
                fwrite(&v, sizeof(v), 1, f);
        }
    }
    fclose(f);
    safetensors_layout_clear(&layout);
}

static struct model *create(const struct model_config *config, const char *directory)
{
    struct error err;
    struct model *m = model_create(config, &parallel, device, 1, &err);

    if (!m || hf_load(directory, config, m, device, &err) < 0 || model_adopt(m, &err) < 0)
        bail(&err);
    return m;
}

static void wait(struct model *m)
{
    struct error err;

    if (device_stream_wait(model_facts(m).stream, 600, &err) < 0)
        bail(&err);
}

/* Loss of the token after position 'at', or of all with -1; its gradients. */
static double loss_of(struct model *m, const double *tokens, int at)
{
    const struct model_batch *b = model_batch(m, 0, 0);
    const struct model_sizes *z = model_facts(m).sizes;
    struct step_state *state = model_facts(m).state;

    *b->logged = 1;
    for (int i = 0; i < LENGTH; i++) {
        b->tokens[i] = (int32_t)tokens[i];
        b->targets[i] = (int32_t)tokens[i + 1];
        b->positions[i] = i;
        b->document_start[i] = 0;
        b->row_index[i] = i;
        b->weight[i] = at < 0 ? 1.0f / LENGTH : at == i ? 1 : 0;
        if (z->window > 0)
            b->window_start[i] = i < z->window ? 0 : i - (int32_t)z->window + 1;
    }
    memset(state, 0, sizeof(*state));
    state->loss_scale = 1;
    model_forward(m, 0, 0, at >= 0, 0);
    if (at < 0)
        model_backward(m, 0, 0, 0, NULL, NULL);
    wait(m);
    return state->loss;
}

static int near(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance * (1 + fabs(b));
}

/* Do the tensors of a directory, times 'number's, add up to the gradients? */
static void check_gradients(const char *name, const char *directory, struct json_value root)
{
    struct error err;
    struct safetensors *tensors = safetensors_open(directory, &err);
    struct json_value value;
    struct json_iterator i;
    int good = 1;

    if (!tensors)
        bail(&err);
    json_iterate(member(root, "tensors"), &i);
    while (json_next(&i, NULL, NULL, &value)) {
        struct expected e = expected_of(value);
        const struct safetensor *tensor = safetensors_find(tensors, e.name);
        double sum = 0;

        for (int64_t n = 0; tensor && n < tensor->rows * tensor->cols; n++) {
            float v;

            safetensor_read(tensor, n, 1, 1, &v);
            sum += (double)v * (double)number(e.name, "!", (uint32_t)n);
        }
        if (!tensor || !near(sum, e.gradient, 5e-5)) {
            good = 0;
            diag("%s: %g, transformers has %g", e.name, sum, e.gradient);
        }
    }
    ok(good, "%s: gradients", name);
    safetensors_destroy(tensors);
}

static void check_export(const char *name, const char *directory, struct json_value root, int gemma)
{
    struct error err;
    struct safetensors *tensors = safetensors_open(directory, &err);
    struct json_value value;
    struct json_iterator i;
    size_t count = 0;
    int good = 1;

    if (!tensors)
        bail(&err);
    json_iterate(member(root, "tensors"), &i);
    for (; json_next(&i, NULL, NULL, &value); count++) {
        struct expected e = expected_of(value);
        const struct safetensor *tensor = safetensors_find(tensors, e.name);
        int same = tensor && tensor->rows == (e.rows ? e.rows : 1) && tensor->cols == e.cols;

        for (int64_t n = 0; same && n < tensor->rows * tensor->cols; n++) {
            float v;

            safetensor_read(tensor, n, 1, 1, &v);
            same = v == weight_of(e.name, (uint32_t)n, gemma);
        }
        if (!same)
            diag("%s differs", e.name);
        good &= same;
    }
    ok(good && !safetensors_at(tensors, count), "%s: exported weights", name);
    safetensors_destroy(tensors);
}

/* The exported config.json describes the same model. */
static void check_config(const char *name, const char *directory, const struct model_config *config)
{
    struct model_config again;
    struct error err;

    if (hf_config_read(directory, &again, &err) < 0)
        bail(&err);
    again.network.shape.sequence = config->network.shape.sequence;
    again.network.hidden_dropout = again.network.attention_dropout = 0;
    again.bucket_elements = config->bucket_elements;
    ok(memcmp(&again, config, sizeof(again)) == 0, "%s: exported configuration", name);
}

static void check_training(const char *name, struct model_config config, const char *directory,
                           struct json_value root, int gemma)
{
    double tokens[LENGTH + 1], losses[LENGTH], mean = 0;
    char out[sizeof(scratch) + 16];
    struct error err;
    struct model *m;
    int good = 1;

    config.network.shape.sequence = LENGTH;
    m = create(&config, directory);
    numbers_of(root, "tokens", tokens, LENGTH + 1);
    numbers_of(root, "losses", losses, LENGTH);
    for (int i = 0; i < LENGTH; i++) {
        double loss = loss_of(m, tokens, i);

        if (!near(loss, losses[i], 2e-5)) {
            good = 0;
            diag("position %d: %g, transformers has %g", i, loss, losses[i]);
        }
        mean += losses[i] / LENGTH;
    }
    ok(good && near(loss_of(m, tokens, -1), mean, 2e-5), "%s: losses", name);
    snprintf(out, sizeof(out), "%s/out", scratch);
    directory_remove(out, NULL, &err);
    if (hf_save(out, &config, m, &parallel, device, &err) < 0)
        bail(&err);
    check_config(name, out, &config);
    check_export(name, out, root, gemma);
    memcpy(model_facts(m).weights, model_facts(m).gradients,
           (size_t)model_facts(m).parameters->elements * sizeof(float));
    if (hf_save(out, &config, m, &parallel, device, &err) < 0)
        bail(&err);
    check_gradients(name, out, root);
    model_destroy(m);
}

/* The same model with norm weights stored in the other way: older checkpoints of Gemma have them
 * so.
 */
static void check_other_norms(const char *name, struct model_config config, const char *directory,
                              struct json_value root, int gemma)
{
    double tokens[LENGTH + 1], losses[LENGTH], mean = 0;
    char out[sizeof(scratch) + 16];
    struct error err;
    struct model *m;

    config.network.layernorm_1p = !config.network.layernorm_1p;
    config.network.shape.sequence = LENGTH;
    m = create(&config, directory);
    numbers_of(root, "tokens", tokens, LENGTH + 1);
    numbers_of(root, "losses", losses, LENGTH);
    for (int i = 0; i < LENGTH; i++)
        mean += losses[i] / LENGTH;
    ok(near(loss_of(m, tokens, -1), mean, 2e-5), "%s: loss with norms %s", name,
       config.network.layernorm_1p ? "minus 1" : "as they are");
    snprintf(out, sizeof(out), "%s/out", scratch);
    if (hf_save(out, &config, m, &parallel, device, &err) < 0)
        bail(&err);
    check_export(name, out, root, gemma);
    model_destroy(m);
}

static void check_generation(const char *name, struct model_config config, const char *directory,
                             struct json_value root)
{
    double tokens[LENGTH + 1], logits[VOCABULARY];
    const float *ours;
    struct model *m;
    int good = 1;

    config.decoding.cache = CACHE;
    config.network.shape.sequence = 1;
    m = create(&config, directory);
    numbers_of(root, "tokens", tokens, LENGTH + 1);
    numbers_of(root, "logits", logits, VOCABULARY);
    for (int i = 0; i < LENGTH; i++) {
        const struct model_batch *b = model_batch(m, 0, 0);

        b->tokens[0] = (int32_t)tokens[i];
        b->positions[0] = b->cache_row[0] = i;
        b->last[0] = 0;
        if (config.network.window > 0)
            b->window_start[0] =
                i < config.network.window ? 0 : i - (int32_t)config.network.window + 1;
        model_extend(m, i + 1);
        wait(m);
    }
    ours = model_facts(m).logits;
    for (int i = 0; i < VOCABULARY; i++)
        if (!near(ours[i], logits[i], 5e-5)) {
            good = 0;
            diag("token %d: %g, transformers has %g", i, (double)ours[i], logits[i]);
        }
    ok(good, "%s: logits after generating token by token", name);
    model_destroy(m);
}

/* A model that is imported and exported again has the bits of the original. */
static void check_bits(const char *name, const char *directory, enum device_type type)
{
    char checkpoint[sizeof(scratch) + 16], from[sizeof(scratch) + 32], back[sizeof(scratch) + 16];
    struct safetensors *before, *after;
    const struct safetensor *tensor;
    struct error err;
    int good = 1;

    snprintf(checkpoint, sizeof(checkpoint), "%s/checkpoint", scratch);
    snprintf(from, sizeof(from), "%s/iter_0000000", checkpoint);
    snprintf(back, sizeof(back), "%s/back", scratch);
    directory_remove(checkpoint, NULL, &err);
    directory_remove(back, NULL, &err);
    if (convert_import_hf(directory, checkpoint, &err) < 0 ||
        convert_export_hf(from, back, type, INT64_MAX, &err) < 0)
        bail(&err);
    before = safetensors_open(directory, &err);
    after = before ? safetensors_open(back, &err) : NULL;
    if (!after)
        bail(&err);
    for (size_t i = 0; (tensor = safetensors_at(before, i)); i++) {
        const struct safetensor *other = safetensors_find(after, tensor->name);
        int same = other && strcmp(other->kind, tensor->kind) == 0 && other->rows == tensor->rows &&
                   other->cols == tensor->cols;

        for (int64_t n = 0; same && n < tensor->rows * tensor->cols; n++) {
            float a, b;

            safetensor_read(tensor, n, 1, 1, &a);
            safetensor_read(other, n, 1, 1, &b);
            same = memcmp(&a, &b, sizeof(a)) == 0;
        }
        if (!same)
            diag("%s differs", tensor->name);
        good &= same;
    }
    ok(good, "%s: the same bits in %s", name, type == TYPE_BF16 ? "bf16" : "fp32");
    safetensors_destroy(before);
    safetensors_destroy(after);
}

static void test_family(const char *folder, const char *file)
{
    char path[512], directory[sizeof(scratch) + 16], name[64];
    struct model_config config;
    struct json *json;
    struct error err;
    FILE *f;
    char *text;
    size_t size;
    int gemma;

    snprintf(name, sizeof(name), "%.*s", (int)(strlen(file) - strlen(".json")), file);
    gemma = strncmp(name, "gemma", 5) == 0;
    snprintf(path, sizeof(path), "%s/%s", folder, file);
    snprintf(directory, sizeof(directory), "%s/in", scratch);
    json = json_read_file(path, 1 << 20, &err);
    if (!json)
        bail(&err);
    f = fopen(path, "r");
    text = calloc(1, 1 << 20);
    size = f && text ? fread(text, 1, (1 << 20) - 1, f) : 0;
    if (f)
        fclose(f);
    mkdir(directory, 0777);
    snprintf(path, sizeof(path), "%s/config.json", directory);
    write_config(path, size ? text : "");
    snprintf(path, sizeof(path), "%s/model.safetensors", directory);
    write_weights(path, json_root(json), gemma, 0, TYPE_FP32);
    free(text);
    if (hf_config_read(directory, &config, &err) < 0)
        bail(&err);
    config.network.hidden_dropout = config.network.attention_dropout = 0;
    config.bucket_elements = 1 << 20;
    check_training(name, config, directory, json_root(json), gemma);
    check_generation(name, config, directory, json_root(json));
    if (!config.network.plain_norm)
        check_other_norms(name, config, directory, json_root(json), gemma);
    for (int half = 0; half < 2; half++) {
        write_weights(path, json_root(json), gemma, 1, half ? TYPE_BF16 : TYPE_FP32);
        check_bits(name, directory, half ? TYPE_BF16 : TYPE_FP32);
    }
    json_destroy(json);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_json(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return dot && strcmp(dot, ".json") == 0;
}

int main(void)
{
    const char *folder = TOP_SRCDIR "/t/unit/runtime/run/exchange/families";
    struct device_options device_options = {.threads = 2};
    struct comm_options comm_options = {.size = 1, .deadline = 60};
    struct layout one = {1, 1, 1, 1};
    struct dirent **files = NULL;
    struct comm *comm;
    struct error err;
    int count;

    device = device_open("cpu", &device_options, &err);
    comm_options.device = device;
    comm = device ? comm_open("self", &comm_options, &err) : NULL;
    if (!comm || parallel_create(&parallel, comm, &one, &err) < 0 || !mkdtemp(scratch))
        bail(&err);
    count = scandir(folder, &files, is_json, by_name);
    ok(count >= 14, "%d models of transformers", count);
    for (int i = 0; i < count; i++) {
        test_family(folder, files[i]->d_name);
        free(files[i]);
    }
    free(files);
    directory_remove(scratch, NULL, &err);
    parallel_destroy(&parallel);
    comm_close(comm);
    device_close(device);
    return done_testing();
}
