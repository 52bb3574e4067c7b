/* SPDX-License-Identifier: Apache-2.0 */
/* Cross entropy, whole and in pieces of a padded vocabulary, and its gradient. */
#include "device_test.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>

struct loss_case {
    int64_t rows, cols, vocabulary;
    int parts;       /* of the padded vocabulary */
    double **logits; /* one matrix per part */
    const int32_t *targets;
};

static void loss_reference(void *context, double *loss)
{
    const struct loss_case *c = context;

    for (int64_t r = 0; r < c->rows; r++) {
        double sum = 0, wanted = 0;

        for (int64_t v = 0; v < c->vocabulary; v++) {
            double logit = c->logits[v / c->cols][r * c->cols + v % c->cols];

            sum += exp(logit);
            if (v == c->targets[r])
                wanted = logit;
        }
        loss[r] = log(sum) - wanted;
    }
}

/* The gradient by its formula, for too many logits for finite differences. */
static double *loss_gradient(const struct loss_case *c, const double *scaled, int part)
{
    double *gradient = malloc((size_t)(c->rows * c->cols) * sizeof(double));

    for (int64_t r = 0; r < c->rows; r++) {
        double sum = 0;

        for (int64_t v = 0; v < c->vocabulary; v++)
            sum += exp(c->logits[v / c->cols][r * c->cols + v % c->cols]);
        for (int64_t i = 0; i < c->cols; i++) {
            int64_t v = part * c->cols + i;
            double share = v < c->vocabulary ? exp(c->logits[part][r * c->cols + i]) / sum : 0;

            gradient[r * c->cols + i] = scaled[r] * (share - (v == c->targets[r]));
        }
    }
    return gradient;
}

/* whole: both halves in one call. With a soft cap, the gradient is that before the cap. */
static void test_capped_cross_entropy(int64_t rows, int64_t cols, int parts, int64_t vocabulary,
                                      int whole, double softcap)
{
    struct tensor logits[4], weight = tensor_as(TYPE_FP32, rows, 0.3, 1);
    struct tensor loss = tensor_as(TYPE_FP32, rows, 9, 0);
    double *values[4], *expected = malloc((size_t)rows * sizeof(double)), total = 0;
    int32_t *targets = malloc((size_t)rows * sizeof(*targets)), *targets_d;
    float *partials = allocate((size_t)(parts * 3 * rows) * sizeof(float));
    struct step_state *state = state_on_device(), after;
    struct operation op = {.cross_entropy = {rows, cols, 0, vocabulary, type, parts, 1, softcap}};
    struct loss_case c = {rows, cols, vocabulary, parts, values, targets};
    struct probe probe = {loss_reference, &c, NULL, rows};
    double *scaled = malloc((size_t)rows * sizeof(double)), *gradient;
    float logged = 0.75f, *logged_d = upload(&logged, sizeof(logged));

    for (int64_t r = 0; r < rows; r++)
        targets[r] = (int32_t)(r * 11 % vocabulary);
    targets_d = upload(targets, (size_t)rows * sizeof(*targets));
    weight.v[0] = 0;
    {
        float *w = malloc((size_t)rows * sizeof(float));

        encode(TYPE_FP32, weight.v, w, rows);
        transfer(weight.d, w, (size_t)rows * sizeof(float), COPY_TO_DEVICE);
        free(w);
    }
    for (int p = 0; p < parts; p++) {
        struct device_plan *partial;

        logits[p] = tensor(rows * cols, 3);
        values[p] = logits[p].v;
        op.kind = OPERATION_CROSS_ENTROPY_PARTIAL;
        op.cross_entropy.first = p * cols;
        if (whole)
            continue;
        partial = plan(&op);
        run_cross_entropy_partial(partial, stream,
                                  &(struct cross_entropy_partial_operands){
                                      logits[p].d, targets_d, partials + p * 3 * rows});
        plan_destroy(partial);
    }
    loss_reference(&c, expected);
    for (int64_t r = 0; r < rows; r++) {
        scaled[r] = weight.v[r] * 2; /* the loss scale */
        total += weight.v[r] * expected[r];
    }
    probe.weight = scaled;
    for (int p = 0; p < parts; p++) {
        struct device_plan *finish;

        op.kind = OPERATION_CROSS_ENTROPY_FINISH;
        op.cross_entropy.first = p * cols;
        finish = plan(&op);
        run_cross_entropy_finish(
            finish, stream,
            &(struct cross_entropy_finish_operands){logits[p].d, targets_d, whole ? NULL : partials,
                                                    weight.d, loss.d, state, logged_d});
        agree(&loss, expected, "cross entropy");
        gradient = loss_gradient(&c, scaled, p);
        for (int64_t i = 0; i < rows * cols && softcap > 0; i++)
            gradient[i] *= 1 - values[p][i] / softcap * (values[p][i] / softcap);
        agree(&logits[p], gradient, "gradient of the logits, by the book");
        free(gradient);
        if (rows * cols <= FEW && softcap == 0)
            gradient_agrees(&probe, &logits[p], &logits[p], "gradient of the logits");
        plan_destroy(finish);
    }
    after = state_read(state);
    ok(fabs(after.loss - logged * parts * total) <
           1e-4 * fabs(total) * (type == TYPE_FP32 ? 1 : 100),
       "the weighted sum is added to the loss of the step");
    for (int p = 0; p < parts; p++)
        tensor_free(&logits[p]);
    free(expected), free(targets), free(scaled);
    device_release(device, targets_d), device_release(device, partials);
    device_release(device, state), device_release(device, logged_d);
    tensor_free(&weight), tensor_free(&loss);
}

static void test_cross_entropy(int64_t rows, int64_t cols, int parts, int64_t vocabulary, int whole)
{
    test_capped_cross_entropy(rows, cols, parts, vocabulary, whole, 0);
}

/* Two rows of logits in parts, of which the first row has 'value' in the first eight columns of the
 * last part, away from its target. With weight 0 it is ignored, otherwise it must show. */
static void test_no_number(int64_t cols, int parts, double value, double weight)
{
    enum { ROWS = 2 };
    const float weights[ROWS] = {(float)weight, 1};
    const int32_t targets[ROWS] = {9, 3};
    struct step_state *state = state_on_device();
    void *weight_d = upload(weights, sizeof(weights)),
         *targets_d = upload(targets, sizeof(targets));
    struct tensor logits[2], loss = tensor_as(TYPE_FP32, ROWS, 9, 0);
    float *partials = allocate((size_t)(parts * 3 * ROWS) * sizeof(float));
    struct operation op = {.kind = OPERATION_CROSS_ENTROPY_PARTIAL,
                           .cross_entropy = {ROWS, cols, 0, parts * cols, type, parts, 1, 0}};
    double *losses;
    int shows = 0;

    for (int p = 0; p < parts; p++) {
        logits[p] = tensor(ROWS * cols, 3);
        for (int i = 0; i < 8 && p == parts - 1; i++)
            logits[p].v[i] = value;
        tensor_put(&logits[p], logits[p].v);
        op.cross_entropy.first = p * cols;
        if (parts > 1) {
            struct device_plan *partial = plan(&op);

            run_cross_entropy_partial(partial, stream,
                                      &(struct cross_entropy_partial_operands){
                                          logits[p].d, targets_d, partials + p * 3 * ROWS});
            plan_destroy(partial);
        }
    }
    op.kind = OPERATION_CROSS_ENTROPY_FINISH;
    for (int p = 0; p < parts; p++) {
        struct device_plan *finish;
        double *gradient;

        op.cross_entropy.first = p * cols;
        finish = plan(&op);
        run_cross_entropy_finish(finish, stream,
                                 &(struct cross_entropy_finish_operands){
                                     logits[p].d, targets_d, parts > 1 ? partials : NULL, weight_d,
                                     loss.d, state, NULL});
        plan_destroy(finish);
        gradient = download(&logits[p]);
        for (int64_t i = 0; i < cols; i++)
            shows += weight == 0 ? gradient[i] != 0 : isnan(gradient[i]);
        free(gradient);
    }
    losses = download(&loss);
    if (weight == 0)
        ok(shows == 0 && isfinite(state_read(state).loss), "a masked row of %g takes no part",
           value);
    else
        ok(shows >= 8 && isnan(losses[0]) && isnan(state_read(state).loss), "a row with %g shows",
           value);
    ok(isfinite(losses[1]), "the other row is as it was");
    free(losses);
    for (int p = 0; p < parts; p++)
        tensor_free(&logits[p]);
    tensor_free(&loss);
    device_release(device, weight_d), device_release(device, targets_d);
    device_release(device, partials), device_release(device, state);
}

void loss_cases(void)
{
    test_cross_entropy(6, 16, 1, 13, 0);
    test_cross_entropy(6, 16, 1, 13, 1);
    test_cross_entropy(3, 1001, 1, 1001, 1);
    test_cross_entropy(3, 5000, 1, 4997, 1);
    test_cross_entropy(3, 1001, 1, 1001, 0);
    test_cross_entropy(3, 20000, 1, 19990, 0); /* more than one iteration of a block */
    test_cross_entropy(1300, 40, 1, 37, 0);    /* more rows than blocks */
    test_cross_entropy(3, 44000, 1, 44000, 1);
    test_cross_entropy(3, 57344, 1, 57300, 1); /* rows larger than what a block holds */
    test_cross_entropy(5, 24, 3, 50, 0);
    test_cross_entropy(5, 24, 3, 40, 0); /* the last part is padding only */
    for (int parts = 1; parts <= 2; parts++) {
        test_no_number(16, parts, NAN, 1);
        test_no_number(16, parts, INFINITY, 1);
        test_no_number(16, parts, NAN, 0);
        test_no_number(16, parts, INFINITY, 0);
    }
    test_no_number(8192, 2, NAN, 1); /* all that some threads see */
}

static void test_softcap(int64_t count, double cap)
{
    struct operation op = {.kind = OPERATION_SOFTCAP, .softcap = {count, type, cap}};
    struct tensor x = tensor(count, 3);
    double *expected = malloc((size_t)count * sizeof(double));
    struct device_plan *p = plan(&op);

    run_softcap(p, stream, &(struct softcap_operands){x.d});
    for (int64_t i = 0; i < count; i++)
        expected[i] = cap * tanh(x.v[i] / cap);
    agree(&x, expected, "soft cap");
    plan_destroy(p);
    free(expected);
    tensor_free(&x);
}

void softcap_cases(void)
{
    test_softcap(1003, 2);
    test_softcap(50000, 30);
    test_capped_cross_entropy(6, 16, 1, 13, 0, 20);
    test_capped_cross_entropy(6, 16, 1, 13, 1, 20);
    test_capped_cross_entropy(3, 5000, 1, 4997, 1, 20);
    test_capped_cross_entropy(3, 20000, 1, 19990, 0, 20);
    test_capped_cross_entropy(5, 24, 3, 40, 0, 20);
}
