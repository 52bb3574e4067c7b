/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer: Adam, the norm of the gradient, and the state of a step. */
#include "device_test.h"
#include "base/core/half.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void test_adam(int64_t count, int64_t decayed, int separate, int skip)
{
    struct operation op = {.kind = OPERATION_ADAM,
                           .adam = {count, decayed, 0.9, 0.95, 1e-8, separate ? type : TYPE_FP32}};
    struct tensor grad = tensor_as(TYPE_FP32, count, 1, 0),
                  master = tensor_as(TYPE_FP32, count, 1, 0);
    struct tensor m1 = tensor_as(TYPE_FP32, count, 0.1, 0),
                  m2 = tensor_as(TYPE_FP32, count, 0, 0.01);
    struct tensor weights = tensor_as(separate ? type : TYPE_FP32, count, 1, 0);
    struct step_state state = {.lr = 0.01f,
                               .weight_decay = 0.1f,
                               .grad_factor = 0.5f,
                               .correction1 = (float)(1 - pow(0.9, 3)),
                               .correction2 = (float)(1 - pow(0.95, 3)),
                               .skip = skip};
    struct step_state *state_d = upload(&state, sizeof(state));
    double *e = malloc((size_t)count * sizeof(double)),
           *e1 = malloc((size_t)count * sizeof(double));
    struct device_plan *p = plan(&op);

    for (int64_t i = 0; i < count; i++) {
        double g = grad.v[i] * 0.5, a = 0.9 * m1.v[i] + 0.1 * g, b = 0.95 * m2.v[i] + 0.05 * g * g;
        double update = a / (1 - pow(0.9, 3)) / (sqrt(b / (1 - pow(0.95, 3))) + 1e-8);

        e[i] = master.v[i] * (i < decayed ? 1 - 0.01 * 0.1 : 1) - 0.01 * update;
        e1[i] = a;
    }
    run_adam(p, stream,
             &(struct adam_operands){.grad = grad.d,
                                     .master = master.d,
                                     .moment1 = m1.d,
                                     .moment2 = m2.d,
                                     .weights = separate ? weights.d : NULL,
                                     .state = state_d});
    agree(&master, skip ? master.v : e, skip ? "a skipped step changes nothing" : "Adam");
    agree(&m1, skip ? m1.v : e1, "first moment");
    if (separate)
        agree(&weights, skip ? weights.v : e, "the copy of the weights");
    plan_destroy(p);
    free(e), free(e1);
    device_release(device, state_d);
    tensor_free(&grad), tensor_free(&master), tensor_free(&m1), tensor_free(&m2);
    tensor_free(&weights);
}

/* Moments in bf16: the results are those in fp32, rounded. */
static void test_narrow_moments(int64_t count, enum device_type first, enum device_type second)
{
    struct operation op = {.kind = OPERATION_ADAM,
                           .adam = {count, count / 3, 0.9, 0.95, 1e-8, type}};
    struct step_state *state_d = adam_state_on_device();
    struct tensor grad = tensor_as(TYPE_FP32, count, 1, 0);
    struct tensor start = tensor_as(TYPE_FP32, count, 1, 0);
    struct tensor start1 = tensor_as(TYPE_BF16, count, 0.1, 0);
    struct tensor start2 = tensor_as(TYPE_BF16, count, 0, 0.01);
    double *results[2][3];
    int64_t wrong = 0, changed = 0;

    for (int i = 0; i < 2; i++) {
        struct tensor all[3] = {
            tensor_as(TYPE_FP32, count, 0, 0),
            tensor_as(i ? first : TYPE_FP32, count, 0, 0),
            tensor_as(i ? second : TYPE_FP32, count, 0, 0),
        };
        struct device_plan *p;

        op.adam.moment1 = i ? first : TYPE_FP32;
        op.adam.moment2 = i ? second : TYPE_FP32;
        p = plan(&op);
        tensor_put(&all[0], start.v);
        tensor_put(&all[1], start1.v);
        tensor_put(&all[2], start2.v);
        run_adam(p, stream,
                 &(struct adam_operands){.grad = grad.d,
                                         .master = all[0].d,
                                         .moment1 = all[1].d,
                                         .moment2 = all[2].d,
                                         .state = state_d});
        for (int k = 0; k < 3; k++) {
            results[i][k] = download(&all[k]);
            tensor_free(&all[k]);
        }
        plan_destroy(p);
    }
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < count; i++) {
            enum device_type as = k == 1 ? first : k == 2 ? second : TYPE_FP32;
            float wide = (float)results[0][k][i];

            wrong += results[1][k][i] !=
                     (as == TYPE_BF16 ? bfloat_to_float(float_to_bfloat(wide)) : wide);
            changed += results[1][k][i] != wide;
        }
    if (!ok(wrong == 0 && changed > count / 2, "Adam of %lld elements with moments in %s and %s",
            (long long)count, first == TYPE_BF16 ? "bf16" : "fp32",
            second == TYPE_BF16 ? "bf16" : "fp32"))
        diag("%lld numbers are wrong, %lld were rounded", (long long)wrong, (long long)changed);
    for (int k = 0; k < 3; k++)
        free(results[0][k]), free(results[1][k]);
    device_release(device, state_d);
    tensor_free(&grad), tensor_free(&start), tensor_free(&start1), tensor_free(&start2);
}

/* fp16 weights without a copy in fp32: each result is rounded to fp16, so that small updates are
 * lost. CPUs have the same numbers in fp32. */
static void test_half(int64_t count)
{
    const char *name = getenv("MEGATRON_TEST_DEVICE");
    int cpu = !name || strcmp(name, "cpu") == 0;
    enum device_type as = cpu ? TYPE_FP32 : TYPE_FP16;
    struct operation op = {.kind = OPERATION_ADAM,
                           .adam = {count, count, 0.9, 0.95, 1e-8, as, .half = 1}};
    struct tensor weights = tensor_as(TYPE_FP16, count, 0.5, 0),
                  master = tensor_as(as, count, 1, 0);
    struct tensor grad = tensor_as(TYPE_FP32, count, 1, 0);
    struct tensor m1 = tensor_as(TYPE_FP32, count, 0, 0), m2 = tensor_as(TYPE_FP32, count, 0, 0);
    struct step_state state = {.lr = 1e-4f,
                               .weight_decay = 0.1f,
                               .grad_factor = 1,
                               .correction1 = 0.1f,
                               .correction2 = 0.05f};
    struct step_state *state_d = upload(&state, sizeof(state));
    struct device_plan *p = plan(&op);
    int64_t lost = 0, near = 0;
    double *got;

    tensor_put(&master, weights.v);
    run_adam(p, stream,
             &(struct adam_operands){.grad = grad.d,
                                     .master = cpu ? master.d : NULL,
                                     .moment1 = m1.d,
                                     .moment2 = m2.d,
                                     .weights = cpu ? NULL : master.d,
                                     .state = state_d});
    got = download(&master);
    for (int64_t i = 0; i < count; i++) {
        /* The first step of Adam: the sign of the gradient. */
        double e = weights.v[i] * (1 - 1e-5) - copysign(1e-4, grad.v[i]);
        double ulp = ldexp(1, fabs(e) < ldexp(1, -14) ? -24 : ilogb(e) - 10);

        near += fabs(got[i] - e) <= 0.501 * ulp &&
                half_to_float(float_to_half((float)got[i])) == got[i];
        lost += got[i] == weights.v[i];
    }
    ok(near == count, "fp16 weights without a copy: the nearest fp16 number");
    ok(lost > count / 4 && lost < count, "small updates are lost");
    free(got);
    plan_destroy(p);
    device_release(device, state_d);
    tensor_free(&weights), tensor_free(&master), tensor_free(&grad);
    tensor_free(&m1), tensor_free(&m2);
}

/* Weights in the snapshot of a checkpoint. */
static void test_widen(void)
{
    static const uint16_t halves[5] = {0x3C00, 0xC000, 0x0001, 0x7BFF, 0x8000};
    static const float expected[5] = {1, -2, 5.9604644775390625e-8f, 65504, -0.0f};
    float values[5];

    memcpy((char *)values + sizeof(values) - sizeof(halves), halves, sizeof(halves));
    half_widen(values, 5, half_to_float);
    ok(memcmp(values, expected, sizeof(values)) == 0, "fp16 numbers become floats in place");
    values[3] = 65536, values[2] = 1.01171875f; /* rounded up */
    bfloat_narrow(values, 5);
    memmove((char *)values + sizeof(values) / 2, values, sizeof(values) / 2);
    half_widen(values, 5, bfloat_to_float);
    ok(values[0] == 1 && values[1] == -2 && values[2] == 1.015625f && values[3] == 65536 &&
           values[4] == 0 && signbit(values[4]),
       "floats become bf16 numbers and floats again, in place");
}

/* Three steps of torch.optim.SGD(lr=0.1, momentum=0.9, weight_decay=0.01), and the learning rate of
 * embedding and output layer. */
static void test_sgd(void)
{
    static const float grads[3][3] = {{0.1f, -0.2f, 0.3f}, {-0.4f, 0.5f, 0.25f}, {1, 0.125f, -2}};
    static const double expected[3] = {0.446095407, -1.29631948, 2.06012869};
    static const double momentum[3] = {0.734651089, 0.379232287, -1.47896564};
    float start[3] = {0.5f, -1.25f, 2}, zero[3] = {0}, got[3];
    struct step_state state = {
        .lr = 7, .decoupled_lr = 0.1f, .weight_decay = 0.01f, .grad_factor = 1};
    struct operation op = {
        .kind = OPERATION_ADAM,
        .adam = {3, 3, 0.9, 0, 0, TYPE_FP32, .kind = OPTIMIZER_SGD, .decoupled = 1}};
    struct step_state *state_d = upload(&state, sizeof(state));
    float *master = upload(start, sizeof(start)), *m1 = upload(zero, sizeof(zero));
    struct device_plan *p = plan(&op);
    int good = 1;

    for (int i = 0; i < 3; i++) {
        float *grad = upload(grads[i], sizeof(grads[i]));

        run_adam(
            p, stream,
            &(struct adam_operands){
                .grad = grad, .master = master, .moment1 = m1, .moment2 = m1, .state = state_d});
        transfer(got, master, sizeof(got), COPY_TO_HOST);
        device_release(device, grad);
    }
    for (int i = 0; i < 3; i++)
        good &= fabs(got[i] - expected[i]) < 1e-6;
    ok(good, "SGD: weights of torch after three steps");
    transfer(got, m1, sizeof(got), COPY_TO_HOST);
    for (int i = 0; i < 3; i++)
        good &= fabs(got[i] - momentum[i]) < 1e-6;
    ok(good, "  and its momentum");
    plan_destroy(p);
    device_release(device, state_d), device_release(device, master), device_release(device, m1);
}

/* The elementwise parts of Muon, one after the other. */
static void test_muon(int64_t count, int nesterov, int separate, int skip)
{
    struct operation op = {.kind = OPERATION_MUON,
                           .muon = {count, MUON_MOMENTUM, 0.95, nesterov, TYPE_FP32}};
    struct tensor x = tensor_as(TYPE_FP32, count, 1, 0), y = tensor(count, 1),
                  moment = tensor_as(TYPE_FP32, count, 0.1, 0),
                  master = tensor_as(TYPE_FP32, count, 1, 0);
    struct tensor weights = tensor_as(separate ? type : TYPE_FP32, count, 1, 0);
    struct step_state state = {
        .lr = 0.01f, .weight_decay = 0.1f, .grad_factor = 0.5f, .skip = skip};
    struct step_state *state_d = upload(&state, sizeof(state));
    double square = 4, *square_d = upload(&square, sizeof(square));
    struct muon_operands o = {.x = x.d,
                              .moment = moment.d,
                              .master = master.d,
                              .square_sum = square_d,
                              .y = y.d,
                              .weights = separate ? weights.d : NULL,
                              .state = state_d};
    struct device_plan *momentum = plan(&op), *normalize, *update;

    op.muon.part = MUON_NORMALIZE;
    op.muon.type = type;
    normalize = plan(&op);
    op.muon.part = MUON_UPDATE;
    op.muon.type = separate ? type : TYPE_FP32;
    update = plan(&op);
    for (int64_t i = 0; i < count && !skip; i++) {
        double g = 0.5 * x.v[i], m = 0.95 * moment.v[i] + 0.05 * g;

        moment.v[i] = m;
        x.v[i] = nesterov ? 0.95 * m + 0.05 * g : m;
        master.v[i] = master.v[i] * (1 - 0.01 * 0.1) - 0.01 * x.v[i];
        weights.v[i] = separate ? master.v[i] : weights.v[i];
    }
    for (int64_t i = 0; i < count; i++)
        y.v[i] = x.v[i] / 2;
    run_muon(momentum, stream, &o);
    run_muon(normalize, stream, &o);
    run_muon(update, stream, &o);
    agree(&x, x.v, nesterov ? "Nesterov momentum of Muon" : "momentum of Muon");
    agree(&moment, moment.v, "  as it is kept");
    agree(&y, y.v, "  divided by its norm");
    agree(&master, master.v, skip ? "  a skipped step changes nothing" : "  the update");
    agree(&weights, weights.v, "  the copy of the weights");
    plan_destroy(momentum), plan_destroy(normalize), plan_destroy(update);
    device_release(device, state_d), device_release(device, square_d);
    tensor_free(&x), tensor_free(&y), tensor_free(&moment), tensor_free(&master);
    tensor_free(&weights);
}

void square_sum_case(int64_t count, enum device_type as)
{
    struct operation op = {.kind = OPERATION_SQUARE_SUM, .square_sum = {count, as}};
    struct tensor x = tensor_as(as, count, 1, 0);
    double start = 3, expected = 3, got, *sum = upload(&start, sizeof(start));
    struct device_plan *p = plan(&op);

    for (int64_t i = 0; i < count; i++)
        expected += x.v[i] * x.v[i];
    run_square_sum(p, stream, &(struct square_sum_operands){x.d, sum});
    transfer(&got, sum, sizeof(got), COPY_TO_HOST);
    ok(fabs(got - expected) < 1e-9 * expected, "sum of squares of %lld%s", (long long)count,
       as == TYPE_BF16 ? " in bf16" : "");
    plan_destroy(p);
    device_release(device, sum);
    tensor_free(&x);
}

void step_cases(void)
{
    struct step_rules rules = {.lr = 1,
                               .min_lr = 0.1,
                               .style = LR_LINEAR,
                               .warmup_samples = 10,
                               .decay_samples = 110,
                               .beta1 = 0.9,
                               .beta2 = 0.95,
                               .clip = 1,
                               .dynamic_scale = 1,
                               .min_scale = 1,
                               .scale_window = 2,
                               .hysteresis = 2};
    struct step_state begin = {.samples = 10, .loss_scale = 4294967296.0f, .hysteresis = 2}, now;
    /* Norm of each step (Inf: overflow) and the loss scale after it, as a power of two. */
    static const struct {
        double norm;
        int scale;
    } rows[] = {{INFINITY, 32}, {NAN, 31},      {INFINITY, 30}, {1, 30},
                {1, 31},        {INFINITY, 31}, {INFINITY, 30}};
    struct step_state *state = upload(&begin, sizeof(begin));
    struct device_plan *clip, *end;
    struct operation op = {.kind = OPERATION_STEP, .step = {rules, STEP_CLIP}};

    clip = plan(&op);
    op.step.phase = STEP_END;
    end = plan(&op);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        now = state_read(state);
        now.norm_squared = rows[i].norm * rows[i].norm * pow((double)now.loss_scale, 2);
        transfer(state, &now, sizeof(now), COPY_TO_DEVICE);
        run_step(clip, stream, &(struct step_operands){state});
        run_step(end, stream, &(struct step_operands){state});
        now = state_read(state);
        ok(now.loss_scale == ldexp(1, rows[i].scale), "loss scale 2^%d after step %zu",
           rows[i].scale, i + 1);
    }
    ok(now.taken == 2 && now.skipped == 5 && now.adam_step == 2, "steps taken and skipped");
    ok(now.scheduled_samples == 20 && fabs(now.lr - 0.91) < 1e-6, "lr of the schedule");
    ok(now.correction1 == (float)(1 - pow(0.9, 3)) && now.correction2 == (float)(1 - pow(0.95, 3)),
       "corrections of the next update, by the steps taken");
    plan_destroy(clip), plan_destroy(end);
    device_release(device, state);
}

void optimizer_cases(void)
{
    test_adam(1000, 700, 1, 0);
    test_adam(40000, 20000, 0, 0);
    test_adam(300, 0, 1, 1);
    test_narrow_moments(40003, TYPE_BF16, TYPE_BF16);
    test_narrow_moments(1000, TYPE_BF16, TYPE_FP32);
    test_narrow_moments(1001, TYPE_FP32, TYPE_BF16);
    test_half(1003);
    test_widen();
    test_sgd();
    test_muon(1000, 0, 1, 0);
    test_muon(40000, 1, 0, 0);
    test_muon(300, 1, 1, 1);
    square_sum_case(5, TYPE_FP32);
    square_sum_case(100000, TYPE_FP32);
}
