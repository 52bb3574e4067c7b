/* SPDX-License-Identifier: Apache-2.0 */
/* Every operation of a training step in the shapes of real models, on one GPU: time, bandwidth
 * against a plain copy, arithmetic rate, and the difference from the same operation in fp32. The
 * sum of all of a step's operations is what a step would take without gaps. With SPEED_ENERGY=1
 * each operation also runs for two seconds: its time and power then, and the energy of a step, with
 * SPEED_ENERGY=algorithms also with other algorithms: see speed_algorithms.c. Brief times are
 * longer then, since the GPU is warm.
 *
 * usage: speed [model ...]        models: see below; default: the first DEFAULT_MODELS */
#include "speed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct model models[] = {
    {"gpt345m", 24, 1024, 16, 16, 4096, 1024, 32, 50304, 0},
    {"gpt1.3b", 24, 2048, 16, 16, 8192, 2048, 8, 50304, 0},
    {"llama8b-l8", 8, 4096, 32, 8, 14336, 4096, 4, 32000, 1},
    {"gpt760m", 24, 1536, 16, 16, 6144, 2048, 8, 50304, 0},
    {"gpt2.7b-l16", 16, 2560, 32, 32, 10240, 2048, 8, 50304, 0},
    {"small", 2, 512, 8, 4, 1536, 320, 3, 1000, 1},
    {"llama7b-l8", 8, 4096, 32, 32, 11008, 4096, 4, 32000, 1},
    {"llama3b-l14", 14, 3072, 24, 8, 8192, 4096, 4, 32000, 1},
    {"qwen7b-l8", 8, 3584, 28, 4, 18944, 4096, 4, 32000, 1},
};
enum { DEFAULT_MODELS = 6 };

/* The products around an activation by themselves: what they and the activation need together can
 * be compared with the kernel that does both. */
static void measure_products(const struct model *m, int64_t rows)
{
    const struct linear_case fc1 = {"fc1 alone", m->hidden, m->llama ? 2 * m->ffn : m->ffn,
                                    0,           0,         0};
    const struct linear_case fc2 = {"fc2 alone", m->ffn, m->hidden, 0, 0, 0};

    measure_linear_forward(&fc1, rows, 0, 0);
    measure_linear_dgrad(&fc2, rows, 0, 0);
}

static void measure_model(const struct model *m, int check)
{
    int64_t rows = m->micro * m->sequence, head = m->hidden / m->heads;
    int64_t width = (m->heads + 2 * m->kv_heads) * head;
    int bias = !m->llama;
    enum activation activation = m->llama ? ACTIVATION_SWIGLU : ACTIVATION_GELU_TANH;
    /* The biases of proj and fc2 are added with the residual. */
    const struct linear_case layers[] = {
        {"qkv", m->hidden, width, bias, 0, 0},
        {"proj", m->hidden, m->hidden, 0, 0, 0},
        {"fc1", m->hidden, m->llama ? 2 * m->ffn : m->ffn, bias, activation, 0},
        {"fc2", m->ffn, m->hidden, 0, 0, activation},
    };

    printf("%s: %lld tokens\n", m->name, (long long)rows);
    step_seconds = 0;
    step_energy = (struct energy){0, 0};
    for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++)
        measure_linear(&layers[i], rows, (double)m->layers, check);
    if (with_algorithms)
        measure_products(m, rows);
    measure_linear(&(struct linear_case){"head", m->hidden, m->vocabulary, 0, 0, 0}, rows, 1, 0);
    measure_attention(m, rows, check);
    measure_attention_dropout(m, rows);
    measure_norms(m, rows, check);
    if (m->llama)
        measure_llama_parts(m, rows, check);
    measure_embeddings(m, rows, 0, check);
    measure_losses(m, rows, check);
    measure_optimizer(m, check);
    printf("  sum of a step: %.2f ms, %.0f tokens/s\n", step_seconds * 1e3,
           (double)rows / step_seconds);
    if (with_energy)
        printf("  sum, sustained: %.2f ms, %.1f J\n", step_energy.seconds * 1e3,
               step_energy.joules);
    begin();
}

/* Our own kernels that only move data, on tensors ten times the size of the L2 cache, where launch
 * overhead and cache hits do not matter. */
static void measure_large(const struct model *m)
{
    int64_t rows = m->micro * m->sequence;

    while (rows * m->hidden * 2 < (int64_t)500 << 20)
        rows *= 2;
    printf("%s: %lld tokens (embeddings: four times), tensors beyond the cache\n", m->name,
           (long long)rows);
    measure_norms(m, rows, 0);
    if (m->llama)
        measure_llama_parts(m, rows, 0);
    /* Their sorting has fixed costs, which are only negligible with more rows. */
    measure_embeddings(m, 4 * rows, 1, 0);
    begin();
}

int main(int argc, char **argv)
{
    struct device_options options = {.cache_dir = getenv("MEGATRON_CACHE_DIR"),
                                     .tuning_dir = getenv("MEGATRON_TUNING_DIR")};
    struct error err;

    device = device_open("cuda", &options, &err);
    if (!device)
        die(&err);
    stream = device_stream_create(device, 0);
    with_energy = getenv("SPEED_ENERGY") != NULL;
    with_algorithms = with_energy && strcmp(getenv("SPEED_ENERGY"), "algorithms") == 0;
    if (with_energy)
        energy_open();
    take_memory();
    copy_bandwidth();
    for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
        int wanted = argc == 1 && i < DEFAULT_MODELS;

        for (int a = 1; a < argc; a++)
            wanted |= strcmp(argv[a], models[i].name) == 0;
        if (wanted)
            measure_model(&models[i], !with_energy);
        if (wanted && models[i].layers > 2 && !with_energy)
            measure_large(&models[i]);
    }
    release_memory();
    device_stream_destroy(stream);
    device_close(device);
    if (failures > 0)
        printf("%.0f operations are WRONG\n", failures);
    return failures > 0;
}
