/* SPDX-License-Identifier: Apache-2.0 */
#include "profile.h"

static const char *const names[PROFILE_CATEGORIES] = {
    [PROFILE_PRODUCTS] = "matrix multiplications",
    [PROFILE_ATTENTION] = "attention",
    [PROFILE_NORMS] = "norms",
    [PROFILE_ACTIVATIONS] = "activations",
    [PROFILE_CASTS] = "casts to fp8",
    [PROFILE_EMBEDDINGS] = "embeddings",
    [PROFILE_HEAD] = "output layer and loss",
    [PROFILE_OPTIMIZER] = "optimizer",
    [PROFILE_REST] = "other operations",
};

static enum profile_category category_of(const struct operation *o)
{
    static const enum profile_category categories[OPERATION_COUNT] = {
#define OPERATION(kind, name, shape, category, ...) [OPERATION_##kind] = PROFILE_##category,
#include "engine/device/operations.def"
    };

    return o->head ? PROFILE_HEAD : categories[o->kind];
}

/* FLOPs that the model needs: masked scores of causal attention are not counted. */
static double flops_of(const struct operation *o)
{
    const struct attention_shape *a = &o->attention;
    double scores;

    switch (o->kind) {
    case OPERATION_LINEAR_FORWARD:
    case OPERATION_LINEAR_DGRAD:
    case OPERATION_LINEAR_WGRAD:
        return 2.0 * (double)o->linear.rows * (double)o->linear.in * (double)o->linear.out;
    case OPERATION_ATTENTION:
    case OPERATION_ATTENTION_BACKWARD:
        scores = (double)(a->batch * a->heads) * (double)a->q_rows * (double)a->kv_rows;
        return (a->causal ? 0.5 : 1.0) * (o->kind == OPERATION_ATTENTION ? 4 : 10) * scores *
               (double)a->head_size;
    default:
        return 0;
    }
}

static double norm_bytes(const struct residual_norm_shape *s, int backward)
{
    double tensor = (double)s->rows * (double)s->cols * (double)type_size(s->type);
    int norm = s->norm != NORM_NONE;

    if (backward) /* dsum, dy and sum are read; dresidual and, with dropout, dx are written */
        return tensor * (1 + 2 * norm + 1 + (s->input && s->dropout > 0));
    return tensor * (2 * (s->input != 0) + (s->residual != 0) + norm);
}

/* Per element: gradient read; master weight and moments read and written; weight written. */
static double adam_bytes(const struct adam_shape *s)
{
    size_t weights = 2 * sizeof(float), size = type_size(s->type);

    if (s->type != TYPE_FP32)
        weights = s->half ? 2 * size : weights + size;
    return (double)(type_size(s->gradient) + weights +
                    2 * (type_size(s->moment1) + type_size(s->moment2)));
}

static double bytes_of(const struct operation *o)
{
    const struct embedding_shape *e = &o->embedding;
    double rows;

    switch (o->kind) {
    case OPERATION_RESIDUAL_NORM:
    case OPERATION_RESIDUAL_NORM_BACKWARD:
        return norm_bytes(&o->residual_norm, o->kind == OPERATION_RESIDUAL_NORM_BACKWARD);
    case OPERATION_ACTIVATION:
        return (o->activation.backward ? 3.0 : 2.0) * (double)o->activation.count *
               (double)type_size(o->activation.type);
    case OPERATION_SWIGLU:
    case OPERATION_SWIGLU_BACKWARD:
        return (o->kind == OPERATION_SWIGLU ? 3.0 : 5.0) * (double)o->swiglu.rows *
               (double)o->swiglu.cols * (double)type_size(o->swiglu.type);
    case OPERATION_EMBEDDING:
    case OPERATION_EMBEDDING_BACKWARD:
        rows = (double)e->rows * (double)e->cols * (double)type_size(e->type);
        return o->kind == OPERATION_EMBEDDING
                   ? 2 * rows
                   : rows + (double)e->table_rows * (double)e->cols * sizeof(float);
    case OPERATION_QUANTIZE: /* at least one layout is written */
        return (double)o->quantize.rows * (double)o->quantize.cols *
               (double)(type_size(o->quantize.from) + type_size(o->quantize.to));
    case OPERATION_QUANTIZE_SQUARES:
        return (double)o->quantize_squares.count * (sizeof(float) + 1);
    case OPERATION_ADAM:
        return (double)o->adam.count * adam_bytes(&o->adam);
    case OPERATION_SQUARE_SUM:
        return (double)o->square_sum.count * sizeof(float);
    default:
        return 0;
    }
}

void profile_add(void *context, const struct operation *operation, double begin, double seconds)
{
    struct profile *profile = context;
    struct profile_sum *sum = &profile->categories[category_of(operation)];

    (void)begin;
    sum->seconds += seconds;
    sum->flops += flops_of(operation);
    sum->bytes += bytes_of(operation);
    sum->count++;
}

static void print_category(const struct profile *profile, const char *name, double seconds,
                           FILE *stream)
{
    fprintf(stream, "  %-32s %10.3f ms %5.1f %%", name, 1e3 * seconds / (double)profile->steps,
            100 * seconds / profile->elapsed);
}

void profile_print(const struct profile *profile, FILE *stream)
{
    double elapsed = profile->elapsed, known = 0;

    fprintf(stream, "time per step by category, mean of %lld steps:\n", (long long)profile->steps);
    for (int i = 0; i < PROFILE_CATEGORIES; i++) {
        const struct profile_sum *sum = &profile->categories[i];

        known += sum->seconds;
        if (sum->seconds <= 0)
            continue;
        print_category(profile, names[i], sum->seconds, stream);
        fprintf(stream, " %5lld operations", (long long)(sum->count / profile->steps));
        if (sum->flops > 0)
            fprintf(stream, " %9.3f TFLOP/s", 1e-12 * sum->flops / sum->seconds);
        else if (sum->bytes > 0)
            fprintf(stream, " %9.3f TB/s", 1e-12 * sum->bytes / sum->seconds);
        fprintf(stream, "\n");
    }
    /* Operations on two streams may overlap. */
    print_category(profile, "idle, copies and communication", elapsed > known ? elapsed - known : 0,
                   stream);
    fprintf(stream, "\n");
    print_category(profile, "total", elapsed, stream);
    fprintf(stream, "\n");
}
