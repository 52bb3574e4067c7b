/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char directory[64] = "/tmp/megatron-linear.XXXXXX", workspace[64];

int directory_create(void)
{
    return mkdtemp(directory) ? 0 : -1;
}

void directory_remove(void)
{
    remove_file();
    remove_named(".tuning.lock");
    rmdir(directory);
}

void remove_named(const char *name)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    unlink(path);
}

void remove_file(void)
{
    remove_named("file");
}

void begin_shape(struct layer *l, int deterministic, enum operation_kind kind,
                 const struct linear_shape *shape)
{
    memset(l, 0, sizeof(*l));
    l->device.gemm.tuning = tuning_open(directory, NULL, "file");
    l->device.gemm.workspace = workspace;
    l->device.gemm.candidates = 8;
    l->device.deterministic = deterministic;
    l->plan.base.device = &l->device.base;
    l->plan.base.kind = kind;
    l->plan.operation.linear = *shape;
    fake.products = fake.gates = fake.failures = fake.broken = 0;
    fake.for_gemms = workspace;
    l->rc = cuda_plan_linear(&l->plan, &l->err);
    if (l->rc == 0)
        tuning_save(l->device.gemm.tuning, NULL);
}

struct linear_shape gelu_layer(int64_t rows)
{
    return (struct linear_shape){.rows = rows,
                                 .in = 8,
                                 .out = 8,
                                 .types = linear_types(TYPE_BF16),
                                 .bias = 1,
                                 .activation = ACTIVATION_GELU_TANH};
}

void begin(struct layer *l, int deterministic)
{
    const struct linear_shape shape = gelu_layer(16);

    begin_shape(l, deterministic, OPERATION_LINEAR_FORWARD, &shape);
}

void end(struct layer *l)
{
    l->plan.destroy(&l->plan);
    tuning_destroy(l->device.gemm.tuning);
}

struct gemm_shape product_shape(int rows, int transpose_a)
{
    return (struct gemm_shape){.m = 8,
                               .n = rows,
                               .k = 8,
                               .transpose_a = transpose_a,
                               .lda = 8,
                               .ldb = 8,
                               .ldd = 8,
                               .type = TYPE_BF16,
                               .out = TYPE_BF16};
}

int count_lines(const struct layer *l, const char *key, const char *end)
{
    char *text = tuning_text(l->device.gemm.tuning);
    int count = 0;

    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;)
        count += strncmp(line, key, strlen(key)) == 0 && strlen(line) > strlen(end) &&
                 strcmp(line + strlen(line) - strlen(end), end) == 0;
    free(text);
    return count;
}
