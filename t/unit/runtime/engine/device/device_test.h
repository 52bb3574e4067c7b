/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of a device: random tensors, comparisons, plans, and gradients by finite
 * differences. If the device fails in any of these, "Bail out!" ends the program. */
#ifndef MEGATRON_DEVICE_TEST_H
#define MEGATRON_DEVICE_TEST_H

#include "engine/device/device.h"

/* What is tested; set by main() before any case. */
extern struct device *device;
extern struct device_stream *stream;
extern enum device_type type;
extern int deterministic, unfused; /* how the device was opened */

/* Memory of the device; to be released by device_release. */
void *allocate(size_t bytes);
void *upload(const void *from, size_t bytes);

/* Copy and wait. */
void transfer(void *to, const void *from, size_t bytes, enum device_copy direction);

/* Round 'n' doubles to the type 'as'. */
void encode(enum device_type as, const double *from, void *to, int64_t n);

/* Doubles on the host, 'as' on the device. */
struct tensor {
    int64_t n;
    enum device_type as;
    double *v; /* the input of the reference; rounded to the type */
    void *d;   /* on the device */
};

/* Normal numbers times 'scale', plus 'offset', drawn after those of earlier tensors. tensor()
 * creates one of the tested type. */
struct tensor tensor_as(enum device_type as, int64_t n, double scale, double offset);
struct tensor tensor(int64_t n, double scale);
void tensor_free(struct tensor *t);

/* Enough rows to fill a GPU; fewer on the CPU, which works row by row. */
int64_t gpu_rows(int64_t rows);

/* Write 'values' to the device. The input of the reference does not change. */
void tensor_put(const struct tensor *t, const double *values);

/* The values on the device; the caller frees them. */
double *download(const struct tensor *t);

/* The allowed relative error of a value. */
double tolerance_of(enum device_type as);
/* The smallest normal value of the type; errors of smaller values are as large as its own. */
double least_of(enum device_type as);

/* The largest difference relative to the largest value, as a fraction of what the type allows. */
void agree(const struct tensor *got, const double *expected, const char *name);

/* The same, each element relative to its own 'size': 0 where nothing may be written. */
void agree_each(const struct tensor *got, const double *expected, const double *size,
                const char *name);

/* Each element within 1e-4, relative if it is above 1, whatever the type: for values that stay in
 * fp32 next to 16-bit elements. */
void agree_closely(const struct tensor *got, const double *expected, const char *name);

struct device_plan *plan(const struct operation *operation);

/* A step with iteration 5, seed 99 and loss scale 2; to be released by device_release. */
struct step_state *state_on_device(void);
struct step_state *adam_state_on_device(void); /* of an update */
struct step_state state_read(const struct step_state *on_device);

/* Gradients: finite differences of sum(weight * output) in double precision. */
struct probe {
    void (*forward)(void *context, double *out);
    void *context;
    const double *weight; /* gradient of the output */
    int64_t outputs;
};

/* The number of elements that finite differences are computed for. */
enum { FEW = 1000 };

/* The gradient with respect to 'x', which 'forward' reads through its context; the caller frees it.
 */
double *difference(const struct probe *probe, double *x, int64_t n);
void gradient_agrees(const struct probe *probe, struct tensor *x, const struct tensor *got,
                     const char *name);

/* The same if the device added to existing values. */
void gradient_added(const struct probe *probe, struct tensor *x, const struct tensor *got,
                    const char *name);

double activation_reference(enum activation activation, double x);
double activation_slope(enum activation activation, double x);

/* Element (r, c) of the matrix that a cast of x and, for gradients, dy computes from them. */
double source_reference(const struct quantize_shape *s, const double *x, const double *dy,
                        int64_t r, int64_t c);
double gate_reference(enum gate kind, double gate, double up);

/* Dropout factor of an element in the step of state_on_device(): 0 if it is dropped. */
double dropout_reference(double p, uint32_t purpose, uint64_t element);

/* The sum of squares of 'count' numbers. */
void square_sum_case(int64_t count, enum device_type as);

/* The cases of each file. */
void linear_cases(void);
void norm_cases(void);
void attention_cases(void);
void row_cases(void);
void loss_cases(void);
void optimizer_cases(void);
void element_cases(void);
void step_cases(void);
void wide_attention_cases(void);
void attention_dropout_cases(void);
void attention_end_cases(void);
void attention_window_cases(void);
void head_norm_cases(void);
void gate_cases(void);
void softcap_cases(void);
void squared_relu_cases(void);
void linear_erf_cases(void);
void linear_deep_cases(void);
void linear_gated_cases(void);
void activation_cases(void);
void quantize_cases(void);
void quantize_blocks_cases(void);
void narrow_gradient_cases(void);

#endif
