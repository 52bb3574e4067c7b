/* SPDX-License-Identifier: Apache-2.0 */
/* Choose the kernel for an attention: the first ones that cuDNN's heuristics list and our own are
 * timed once, and the fastest is remembered, as for products. Ours must agree with cuDNN's. */
#include "cuda.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/xmalloc.h"
#include "compare.h"
#include "hopper_attention.h"

/* Creating one of cuDNN's plans takes a tenth of a second or more. */
enum { MAX_CUDNN = 2, TRIED = 4, MOST_CHOICES = MAX_CUDNN + 1 };

enum { MOST_OUTPUTS = 3 };
/* The largest difference between two kernels' results, relative to their norm: probabilities are
 * rounded to 16 bits, and some kernels round the gradients of each head before they add them. */
static const double ROUNDING = 3e-2;

/* Memory for every operand. */
struct scratch {
    char *q, *k, *v, *o, *d_o, *dq, *dk, *dv;
    float *lse;
    int64_t *seed;
    int32_t *start, *end;
    char *workspace;
    void *all;
};

struct trial {
    const struct flash *flash;
    const struct flash_shape *shape;
    const struct scratch *scratch;
    int backward, number;
};

static int run_trial(void *argument)
{
    const struct trial *t = argument;
    const struct scratch *s = t->scratch;
    struct flash_bounds bounds = {s->start, s->end};

    return t->backward ? flash_backward(t->flash, s->q, s->k, s->v, s->o, s->lse, s->d_o, s->dq,
                                        s->dk, s->dv, s->seed, bounds, s->workspace, NULL)
                       : flash_forward(t->flash, s->q, s->k, s->v, s->o, s->lse, s->seed, bounds,
                                       s->workspace, NULL);
}

/* Take the next 'bytes' at '*at', aligned. */
static char *take(char **at, size_t bytes)
{
    char *part = *at;

    *at += cuda_align(bytes);
    return part;
}

static size_t operand_bytes(const struct flash_shape *shape, struct flash_strides strides)
{
    return (size_t)(shape->batch * strides.batch) * 2;
}

/* Lay out the operands from 'base' on and return their total size. Heads of keys and values may be
 * interleaved with those of other operands, so each operand has room for whole samples. */
static size_t place(struct scratch *s, const struct flash_shape *shape, int backward,
                    size_t workspace, char *base)
{
    size_t rows = (size_t)(shape->batch * shape->heads * shape->queries);
    char *at = base;

    s->q = take(&at, operand_bytes(shape, shape->q));
    s->k = take(&at, operand_bytes(shape, shape->k));
    s->v = take(&at, operand_bytes(shape, shape->v));
    s->o = take(&at, operand_bytes(shape, shape->o));
    s->d_o = take(&at, backward ? operand_bytes(shape, shape->o) : 0);
    s->dq = take(&at, backward ? operand_bytes(shape, shape->dq) : 0);
    s->dk = take(&at, backward ? operand_bytes(shape, shape->dk) : 0);
    s->dv = take(&at, backward ? operand_bytes(shape, shape->dv) : 0);
    s->lse = (float *)take(&at, rows * sizeof(float));
    s->seed = (int64_t *)take(&at, 2 * sizeof(int64_t));
    s->start = (int32_t *)take(&at, (size_t)(shape->batch * shape->queries) * sizeof(int32_t));
    s->end = (int32_t *)take(&at, (size_t)(shape->batch * shape->queries) * sizeof(int32_t));
    s->workspace = take(&at, workspace);
    return (size_t)(at - base);
}

/* Does a sample fit into its stride, so that 'place' reserves room for all of them? */
static int whole_samples(struct flash_strides strides, int64_t rows)
{
    return strides.batch >= rows * strides.position;
}

/* Returns -1 if there is not enough memory; then nothing is timed. */
static int scratch_create(struct scratch *s, struct cuda_device *device,
                          const struct flash_shape *shape, int backward, size_t workspace)
{
    enum device_type type = shape->type == CUDNN_DATA_BFLOAT16 ? TYPE_BF16 : TYPE_FP16;
    size_t bytes = place(s, shape, backward, workspace, NULL);

    if (!whole_samples(shape->q, shape->queries) || !whole_samples(shape->o, shape->queries) ||
        !whole_samples(shape->k, shape->keys) || !whole_samples(shape->v, shape->keys))
        return -1;
    if (cudaMalloc(&s->all, bytes)) {
        cudaGetLastError();
        return -1;
    }
    place(s, shape, backward, workspace, s->all);
    cudaMemsetAsync(s->lse, 0, (size_t)(s->workspace - (char *)s->lse), device->gemm.stream);
    /* Set nearly all bits of the ends: beyond every key. */
    cudaMemsetAsync(s->end, 0x3f, (size_t)(s->workspace - (char *)s->end), device->gemm.stream);
    kernel_noise(device->gemm.stream, type, ((char *)s->lse - (char *)s->all) / 2, s->all);
    return 0;
}

/* 'ours': the version of our kernels, if they are candidates. Choices made without them, or with
 * another version of them, are then ignored. */
static void make_key(const struct flash_shape *s, int backward, int ours, char *key, size_t size)
{
    char version[16] = "";

    if (ours)
        snprintf(version, sizeof(version), ":ours%d", ours);
    snprintf(key, size,
             "flash%d:%zu:%" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64
             ":%" PRId64 ":%" PRId64 ":%d:%d:%d:%d:%d%s%s",
             backward, cudnnGetVersion(), s->batch, s->heads, s->groups, s->queries, s->keys,
             s->width, s->q.position, s->k.position, (int)s->type, s->dropout > 0, s->causal,
             s->documents, s->deterministic, s->ends ? ":ends" : "", version);
}

/* A kernel and its number. */
struct choice {
    struct flash *flash;
    int number;
};

static int add_choice(struct choice *choices, int count, struct cuda_device *device,
                      const struct flash_shape *shape, int backward, int number, struct error *err)
{
    choices[count] =
        (struct choice){flash_create(device->cudnn, shape, backward, number, err), number};
    return count + (choices[count].flash != NULL);
}

/* Our kernels for 64 channels have been in use for long. Those for other sizes are only used after
 * a comparison, if there is another kernel. */
static int is_trusted(const struct flash_shape *shape)
{
    return shape->width == 64;
}

/* List the candidates; returns their number, and if there is none, why cuDNN's best guess failed.
 */
static int offer(struct choice choices[MOST_CHOICES], struct cuda_device *device,
                 const struct flash_shape *shape, int backward, int ours, struct error *err)
{
    /* Dropout must be the same in both directions, which cuDNN does not guarantee for two kernels.
     */
    int untuned = device->gemm.candidates == 1, count = 0;
    int most = shape->dropout > 0 || untuned ? 1 : MAX_CUDNN;

    if (untuned && ours && is_trusted(shape))
        count = add_choice(choices, count, device, shape, backward, FLASH_OURS, NULL);
    for (int i = 0; i < TRIED && count < most; i++)
        count = add_choice(choices, count, device, shape, backward, i, i == 0 ? err : NULL);
    if (ours && (!untuned || count == 0))
        count = add_choice(choices, count, device, shape, backward, FLASH_OURS, NULL);
    return count;
}

static int is_ours(const struct trial *trial)
{
    return trial->number == FLASH_OURS;
}

/* The outputs of a trial; returns their number. */
static int outputs_of(const struct trial *t, struct output outputs[MOST_OUTPUTS])
{
    const struct flash_shape *s = t->shape;
    enum device_type type = s->type == CUDNN_DATA_BFLOAT16 ? TYPE_BF16 : TYPE_FP16;

    if (!t->backward) {
        outputs[0] = (struct output){t->scratch->o, type, s->batch * s->o.batch};
        outputs[1] = (struct output){t->scratch->lse, TYPE_FP32, s->batch * s->heads * s->queries};
        return 2;
    }
    outputs[0] = (struct output){t->scratch->dq, type, s->batch * s->dq.batch};
    outputs[1] = (struct output){t->scratch->dk, type, s->batch * s->dk.batch};
    outputs[2] = (struct output){t->scratch->dv, type, s->batch * s->dv.batch};
    return 3;
}

/* Run a trial on outputs filled with 0, since strides may leave gaps. */
static int take_fingerprints(struct trial *t, struct cuda_device *device,
                             struct fingerprint *fingerprints)
{
    struct output outputs[MOST_OUTPUTS];
    int count = outputs_of(t, outputs);

    for (int i = 0; i < count; i++)
        if (cudaMemsetAsync(outputs[i].data, 0,
                            (size_t)outputs[i].count * type_size(outputs[i].type),
                            device->gemm.stream))
            return -1;
    if (run_trial(t) < 0)
        return -1;
    for (int i = 0; i < count; i++)
        if (fingerprint_take(&device->gemm, &outputs[i], &fingerprints[i]) < 0)
            return -1;
    return count;
}

/* Documents of a third of a sequence, and ends at three quarters of the keys. */
static int set_bounds(const struct scratch *s, const struct flash_shape *shape,
                      struct cuda_device *device)
{
    int64_t rows = shape->batch * shape->queries, third = shape->queries / 3 + 1;
    size_t bytes = (size_t)rows * sizeof(int32_t);
    int32_t *bounds = xmalloc(2 * bytes);
    int failed = 0;

    for (int64_t i = 0; i < rows; i++) {
        bounds[i] = (int32_t)(i % shape->queries / third * third);
        bounds[rows + i] = (int32_t)(shape->keys - shape->keys / 4);
    }
    if (shape->documents)
        failed |= cudaMemcpyAsync(s->start, bounds, bytes, cudaMemcpyHostToDevice,
                                  device->gemm.stream) != cudaSuccess;
    if (shape->ends)
        failed |= cudaMemcpyAsync(s->end, bounds + rows, bytes, cudaMemcpyHostToDevice,
                                  device->gemm.stream) != cudaSuccess;
    failed |= cudaStreamSynchronize(device->gemm.stream) != cudaSuccess;
    free(bounds);
    return failed ? -1 : 0;
}

/* Are the results of 'ours' those of 'theirs' but for rounding? */
static int agrees(struct trial *ours, struct trial *theirs, struct cuda_device *device)
{
    struct fingerprint expected[MOST_OUTPUTS], got[MOST_OUTPUTS];
    int count = set_bounds(ours->scratch, ours->shape, device) < 0
                    ? -1
                    : take_fingerprints(theirs, device, expected);
    int right = count > 0 && take_fingerprints(ours, device, got) == count;

    for (int i = 0; i < count && right; i++)
        right = fingerprints_agree(&expected[i], &got[i], ROUNDING);
    cudaGetLastError(); /* a kernel that fails is not an error of the device */
    return right;
}

/* Time the choices; returns the best, or -1 if none runs. 'text' gets the result, for the file. */
static int best_of(const struct choice *choices, int count, const struct flash_shape *shape,
                   const struct scratch *scratch, int backward, struct cuda_device *device,
                   char *text, size_t size)
{
    struct trial trials[MOST_CHOICES];
    struct timing_candidate candidates[MOST_CHOICES];
    int found, wrong;

    cudnnSetStream(device->cudnn, device->gemm.stream);
    for (int i = 0; i < count; i++) {
        trials[i] = (struct trial){choices[i].flash, shape, scratch, backward, choices[i].number};
        candidates[i] =
            (struct timing_candidate){.call = run_trial, .argument = &trials[i], .handicap = 1};
    }
    if (gemm_rank(&device->gemm, candidates, count, NULL) < 0 || candidates[0].seconds <= 0)
        return -1; /* the next call reports the error */
    wrong = count > 1 && is_ours(candidates[0].argument) && candidates[1].seconds > 0 &&
            !agrees(candidates[0].argument, candidates[1].argument, device);
    found = (int)((struct trial *)candidates[wrong].argument - trials);
    snprintf(text, size, "%d", choices[found].number);
    for (int i = 0; i < count; i++) {
        int number = ((struct trial *)candidates[i].argument)->number;
        size_t used = strlen(text);

        snprintf(text + used, size - used, ",%d:%.0fus%s", number, candidates[i].seconds * 1e6,
                 wrong && i == 0 ? ":wrong" : "");
    }
    return found;
}

/* Choose one and remember it. Without memory for trials, choose the one that needs the least, and
 * remember it only if it must be the same in the next run. Provisional: not all were offered. */
static int choose(const struct choice *choices, int count, struct cuda_device *device,
                  const struct flash_shape *shape, int backward, const char *key, int provisional)
{
    struct scratch scratch;
    size_t most = 0;
    char text[128];
    int found = 0;

    for (int i = 0; i < count; i++) {
        size_t workspace = flash_workspace(choices[i].flash);

        if (workspace > most)
            most = workspace;
        if (i > 0 && choices[i].number == FLASH_OURS && !is_trusted(shape))
            continue;
        if (workspace < flash_workspace(choices[found].flash))
            found = i;
    }
    snprintf(text, sizeof(text), "%d", choices[found].number);
    if (count > 1 && scratch_create(&scratch, device, shape, backward, most) == 0) {
        int best = best_of(choices, count, shape, &scratch, backward, device, text, sizeof(text));

        cudaFree(scratch.all);
        if (best < 0)
            return found;
        found = best;
    } else if (count > 1 && !shape->deterministic) {
        return found;
    }
    if (provisional)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%c", TUNING_PROVISIONAL);
    tuning_put(device->gemm.tuning, key, text);
    return found;
}

static int known_by(struct cuda_device *device, const char *key)
{
    const char *known = tuning_get(device->gemm.tuning, key);

    return known && known[0] >= '0' && known[0] <= '9' ? atoi(known) : -1;
}

int cuda_flash_known(struct cuda_device *device, const struct flash_shape *shape, int backward)
{
    char key[256];

    make_key(shape, backward, hopper_attention_version(shape), key, sizeof(key));
    return known_by(device, key);
}

/* A process that dies or hangs while it tries our kernels leaves a record, and the next one does
 * not try them. */
static int may_try(struct cuda_device *device, const struct flash_shape *shape, const char *key)
{
    return is_trusted(shape) || device->gemm.candidates == 1 ||
           tuning_try(device->gemm.tuning, key) == 0;
}

struct flash *cuda_flash(struct cuda_device *device, const struct flash_shape *shape, int backward,
                         struct error *err)
{
    int ours = hopper_attention_version(shape), count, chosen, known, skipped;
    struct choice choices[MOST_CHOICES];
    struct flash *flash = NULL;
    char key[256];

    make_key(shape, backward, ours, key, sizeof(key));
    known = known_by(device, key);
    if (known >= 0)
        flash = flash_create(device->cudnn, shape, backward, known, NULL);
    if (flash)
        return flash;
    skipped = ours && !may_try(device, shape, key);
    count = offer(choices, device, shape, backward, ours && !skipped, err);
    chosen = count > 0 ? choose(choices, count, device, shape, backward, key, skipped) : 0;
    if (ours && !device->gemm.broken)
        tuning_untry(device->gemm.tuning, key); /* if nothing was remembered */
    for (int i = 0; i < count; i++)
        if (i != chosen)
            flash_destroy(choices[i].flash);
    return count > 0 ? choices[chosen].flash : NULL;
}
