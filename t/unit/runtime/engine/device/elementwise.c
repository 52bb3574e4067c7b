/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that work on single elements or copy them. */
#include "device_test.h"
#include "tap.h"
#include "base/core/rng.h"

#include <math.h>
#include <stdlib.h>

/* From one tail to the other, each value within the rounding error of the type. */
static void wide_activations(void)
{
    enum { COUNT = 2001 };
    struct tensor x = tensor(COUNT, 1), y = tensor(COUNT, 9);
    double e[COUNT], size[COUNT];

    for (int i = 0; i < COUNT; i++)
        x.v[i] = (i - COUNT / 2) * 0.0078125; /* exact in bf16 up to 2, in fp16 up to 8 */
    for (int i = 0; i < COUNT; i++)
        x.v[i] = type == TYPE_FP32 ? x.v[i] : (int)(x.v[i] * 16) / 16.0;
    tensor_put(&x, x.v);
    for (int kind = ACTIVATION_GELU_TANH; kind <= ACTIVATION_TANH; kind++) {
        struct operation op = {.kind = OPERATION_ACTIVATION,
                               .activation = {COUNT, type, type, (enum activation)kind}};
        struct device_plan *p = plan(&op);

        run_activation(p, stream, &(struct activation_operands){.x = x.d, .y = y.d});
        for (int i = 0; i < COUNT; i++) {
            e[i] = activation_reference((enum activation)kind, x.v[i]);
            size[i] = fmax(fabs(x.v[i]), least_of(type));
        }
        agree_each(&y, e, size, "activation, far from 0");
        plan_destroy(p);
    }
    tensor_free(&x), tensor_free(&y);
}

/* Unsupported types are rejected when the plan is created. */
static void refused_types(void)
{
    struct operation ops[] = {
        {.kind = OPERATION_LINEAR_FORWARD,
         .linear = {16, 16, 16, {TYPE_E4M3, type, type, type}, 0, ACTIVATION_NONE, 0}},
        {.kind = OPERATION_LINEAR_WGRAD,
         .linear = {16, 16, 16, linear_types(TYPE_E5M2), 0, ACTIVATION_NONE, 0}},
        {.kind = OPERATION_ACTIVATION, .activation = {16, type, TYPE_E4M3, ACTIVATION_GELU_ERF}},
        {.kind = OPERATION_RESIDUAL_NORM,
         .residual_norm = {16, 16, type, TYPE_E5M2, NORM_RMS, 1e-5, 1, 0, 0, 0, 0}},
        {.kind = OPERATION_SWIGLU, .swiglu = {16, 16, type, TYPE_E4M3, GATE_SILU}},
    };

    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
        struct error err = {.text = ""};
        struct device_plan *p = plan_create(device, &ops[i], &err);

        ok(!p && err.text[0], "fp8 operands are rejected (%s)", err.text);
        plan_destroy(p);
    }
}

/* Copies of all directions happen in the order of the stream, whoever makes them: the numbers go
 * from the device over two places in host memory to another place on the device. */
static void test_copies(void)
{
    enum { COUNT = 300000 };
    struct tensor x = tensor_as(TYPE_FP32, COUNT, 1, 0), y = tensor_as(TYPE_FP32, COUNT, 1, 0);
    struct error err = {.text = ""};
    size_t bytes = COUNT * sizeof(float);
    float *near = device_host_allocate(device, 2 * bytes, &err), *far = near ? near + COUNT : NULL;

    if (!ok(near != NULL, "host memory for copies"))
        return;
    device_copy(stream, near, x.d, bytes, COPY_TO_HOST);
    device_copy(stream, far, near, bytes, COPY_ON_HOST);
    device_copy(stream, y.d, far, bytes, COPY_TO_DEVICE);
    device_copy(stream, near, y.d, bytes, COPY_TO_HOST);
    ok(device_stream_wait(stream, 60, &err) == 0, "copies end");
    agree(&y, x.v, "copies in host memory are in stream order");
    device_host_release(device, near);
    tensor_free(&x), tensor_free(&y);
}

void element_cases(void)
{
    struct operation op = {.kind = OPERATION_ADD, .add = {1000, type}};
    struct tensor x = tensor(1000, 1), y = tensor(1000, 1), z = tensor_as(TYPE_FP32, 1000, 1, 0);
    struct device_plan *p = plan(&op);
    double e[1000];
    int32_t index[10] = {3, 99, -1, 0, 3, 42, 7, -1, 12, 98},
            *index_d = upload(index, sizeof(index));
    int32_t places[10] = {9, -1, 4, 3, 0, -1, 1, 8, 7, 5},
            *places_d = upload(places, sizeof(places));

    test_copies();
    run_add(p, stream, &(struct add_operands){x.d, y.d});
    for (int i = 0; i < 1000; i++)
        e[i] = x.v[i] + y.v[i];
    agree(&y, e, "add");
    plan_destroy(p);

    for (int kind = ACTIVATION_GELU_TANH; kind <= ACTIVATION_TANH; kind++) {
        op = (struct operation){.kind = OPERATION_ACTIVATION,
                                .activation = {1000, type, type, (enum activation)kind}};
        p = plan(&op);
        run_activation(p, stream, &(struct activation_operands){.x = x.d, .y = y.d});
        for (int i = 0; i < 1000; i++)
            e[i] = activation_reference((enum activation)kind, x.v[i]);
        agree(&y, e, "activation");
        plan_destroy(p);
        op.activation.backward = 1;
        p = plan(&op);
        tensor_put(&y, y.v);
        run_activation(p, stream, &(struct activation_operands){.x = x.d, .y = y.d, .dy = y.d});
        for (int i = 0; i < 1000; i++)
            e[i] = activation_slope((enum activation)kind, x.v[i]) * y.v[i];
        agree(&y, e, "activation, backward");
        plan_destroy(p);
    }

    op = (struct operation){.kind = OPERATION_FILL, .fill = {110, type, 1.5}};
    p = plan(&op);
    run_fill(p, stream, &(struct fill_operands){z.d});
    plan_destroy(p);
    op = (struct operation){.kind = OPERATION_GATHER_ROWS, .gather_rows = {10, 9, type, 10, 11, 0}};
    p = plan(&op);
    run_gather_rows(p, stream, &(struct gather_rows_operands){x.d, index_d, z.d});
    for (int i = 0; i < 110; i++)
        if (i % 11 < 9)
            e[i] = index[i / 11] < 0 ? 0 : x.v[index[i / 11] * 10 + i % 11];
        else
            e[i] = 1.5; /* nothing is written between the rows */
    z.n = 110, z.as = type;
    agree(&z, e, "gather rows");
    plan_destroy(p);

    op = (struct operation){.kind = OPERATION_GATHER_ROWS, .gather_rows = {10, 9, type, 10, 11, 1}};
    p = plan(&op);
    run_gather_rows(p, stream, &(struct gather_rows_operands){x.d, places_d, z.d});
    for (int r = 0; r < 10; r++)
        for (int i = 0; i < 9 && places[r] >= 0; i++)
            e[places[r] * 11 + i] = x.v[r * 10 + i];
    agree(&z, e, "scatter rows");
    z.n = 1000, z.as = TYPE_FP32;
    plan_destroy(p);

    op = (struct operation){.kind = OPERATION_NORMAL, .normal = {7, 11, 3, 5, 40, 0.5}};
    p = plan(&op);
    run_normal(p, stream, &(struct normal_operands){z.d, 123, 77});
    for (int i = 0; i < 77; i++) {
        uint64_t n = (uint64_t)((3 + i / 11) * 40 + 5 + i % 11);
        double pair[2];

        rng_normal(123, 77, 0, n / 2, pair);
        e[i] = 0.5 * pair[n % 2];
    }
    z.n = 77;
    agree(&z, e, "normal numbers by global index");
    plan_destroy(p);

    op = (struct operation){.kind = OPERATION_FILL, .fill = {1000, type, 1.5}};
    p = plan(&op);
    run_fill(p, stream, &(struct fill_operands){x.d});
    for (int i = 0; i < 1000; i++)
        e[i] = 1.5;
    agree(&x, e, "fill");
    plan_destroy(p);

    op = (struct operation){.kind = OPERATION_CONVERT, .convert = {1000, type, TYPE_FP32}};
    p = plan(&op);
    run_convert(p, stream, &(struct convert_operands){x.d, z.d});
    z.n = 1000;
    agree(&z, e, "convert");
    plan_destroy(p);
    device_release(device, index_d), device_release(device, places_d);
    tensor_free(&x), tensor_free(&y), tensor_free(&z);
}

void activation_cases(void)
{
    wide_activations();
    refused_types();
}
