/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the speed test: the tensors of one operation at a time, and its line of
 * output. */
#ifndef MEGATRON_SPEED_H
#define MEGATRON_SPEED_H

#include "engine/device/device.h"

struct model {
    const char *name;
    int64_t layers, hidden, heads, kv_heads, ffn, sequence, micro, vocabulary;
    int llama;
};

enum { MAX_SLOTS = 16 };

/* One tensor of an operation: 'wide' is the fp32 copy for the reference. */
struct slot {
    int64_t count;
    int fixed; /* fp32 in both runs, or integers */
    int output;
    void *memory, *wide;
};

extern struct device *device;
extern struct device_stream *stream;
extern struct slot slots[MAX_SLOTS];
extern int s[MAX_SLOTS];     /* slots of the operation, in the order of its operands */
extern struct operation now; /* created by make_now, run by run_now */
extern int reference;        /* is this the fp32 run? */
extern double copy_rate, step_seconds, failures;

void die(const struct error *err);
struct device_plan *plan(const struct operation *operation);
void finish(void);
void fill(void *out, int64_t count, enum device_type type, double value);
float *fetch(const void *from, enum device_type as, int64_t count);

/* Start a new operation. */
void begin(void);

/* A random input; with 'fixed' it is fp32 in both runs. Returns its number. */
int input(int64_t count, double deviation, int fixed);

/* An output, filled with NaN; with 'fixed' it is fp32 in both runs. */
int output(int64_t count, int fixed);

/* Integers below 'limit', the same in both runs: in steps of 'step', random without it, or with
 * SCATTERED each one once before any repeats, far from its neighbors. */
enum { SCATTERED = -1 };
int integers(int64_t count, int64_t limit, int64_t step);

/* These bytes, the same in both runs. */
int constant(const void *bytes, size_t size);

/* Slot number i of the current run, and its type. */
void *p(int i);
enum device_type type(void);

struct device_plan *make_now(void);
void run_now(struct device_plan *made);

/* Run 'run' in bf16, timed, and once in fp32; print a line. 'times': how often a step does it. */
void measure(const char *name, void (*run)(struct device_plan *plan),
             struct device_plan *(*make)(void), double bytes, double flops, double times,
             double tolerance, int check);
/* speed_energy.c: measured by measure, too, after energy_open. */
struct energy {
    double seconds, joules; /* of one run among many */
};
void energy_open(void); /* ends the program if the GPU has no counter of energy */
struct energy energy_measure(void (*run)(struct device_plan *), struct device_plan *plan,
                             double once);
extern int with_energy;
extern struct energy step_energy; /* the sum of all operations of a step */

/* speed_algorithms.c: run the current operation with other algorithms for the products that were
 * chosen since 'before' was the text of choices. */
void measure_algorithms(const char *before);
extern int with_algorithms;

/* The choices of the device as text (the caller frees it), and ways to create the next plans with
 * 'value' for 'key', which with 'remember' is kept in the cache, and with a whole text, which is.
 */
char *choices(void);
void force(const char *choices, const char *key, const char *value, int remember);
void restore(const char *choices);

/* Mean time of a few runs in a row, in seconds. */
double time_briefly(void (*run)(struct device_plan *), struct device_plan *plan);

void take_memory(void); /* called first */
void release_memory(void);
void copy_bandwidth(void);

/* speed_matrix.c */
struct linear_case {
    const char *name;
    int64_t in, out;
    int bias;                      /* added in this layer's pass */
    enum activation after, before; /* of its output, and of the layer that produced its input */
};
void measure_linear_forward(const struct linear_case *c, int64_t rows, double times, int check);
void measure_linear_dgrad(const struct linear_case *c, int64_t rows, double times, int check);
void measure_linear(const struct linear_case *c, int64_t rows, double times,
                    int check); /* and wgrad */
void measure_attention(const struct model *m, int64_t rows, int check);
void measure_attention_dropout(const struct model *m, int64_t rows);

/* speed_moves.c */
void measure_norms(const struct model *m, int64_t rows, int check);
void measure_llama_parts(const struct model *m, int64_t rows, int check);
void measure_embeddings(const struct model *m, int64_t rows, int large, int check);
void measure_losses(const struct model *m, int64_t rows, int check);
void measure_optimizer(const struct model *m, int check);

#endif
