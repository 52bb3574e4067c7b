/* What the parts of the speed test share: the tensors of one operation at a time, and its line. */
#ifndef MEGATRON_SPEED_H
#define MEGATRON_SPEED_H

#include "device.h"

struct model {
    const char *name;
    int64_t layers, hidden, heads, kv_heads, ffn, sequence, micro, vocabulary;
    int llama;
};

enum { MAX_SLOTS = 16 };

/* One tensor of an operation: 'wide' is the fp32 copy the reference works on. */
struct slot {
    int64_t count;
    int fixed; /* fp32 in any case, or integers */
    int output;
    void *memory, *wide;
};

extern struct device *device;
extern struct device_stream *stream;
extern struct slot slots[MAX_SLOTS];
extern int s[MAX_SLOTS];     /* slots of the operation, in the order of its operands */
extern struct operation now; /* what make_now makes and run_now runs */
extern int reference;        /* is this the run in fp32? */
extern double copy_rate, step_seconds, failures;

void die(const struct error *err);
struct device_plan *plan(const struct operation *operation);
void finish(void);
void fill(void *out, int64_t count, enum device_type type, double value);
float *fetch(const void *from, enum device_type as, int64_t count);

/* Start a new operation. */
void begin(void);

/* A random input; with 'fixed' it is fp32 for both. Returns its number. */
int input(int64_t count, double deviation, int fixed);

/* An output, full of NaN at first; with 'fixed' it is fp32 for both. */
int output(int64_t count, int fixed);

/* Integers below 'limit', the same for both: counting in steps of 'step', random without one, and
 * with SCATTERED each of them once before one comes again, far from its neighbours. */
enum { SCATTERED = -1 };
int integers(int64_t count, int64_t limit, int64_t step);

/* These bytes, the same for both. */
int constant(const void *bytes, size_t size);

/* Slot number i for the run that is going on, and its type. */
void *p(int i);
enum device_type type(void);

struct device_plan *make_now(void);
void run_now(struct device_plan *made);

/* Run 'run' in bf16, timed, and once in fp32; print a line. 'times': how often a step does it. */
void measure(const char *name, void (*run)(struct device_plan *plan),
             struct device_plan *(*make)(void), double bytes, double flops, double times,
             double tolerance, int check);
void take_memory(void); /* before all else */
void release_memory(void);
void copy_bandwidth(void);

/* speed_matrix.c */
void measure_linear(const char *name, int64_t rows, int64_t in, int64_t out, int bias, int gelu_out,
                    int gelu_in, double times, int check);
void measure_attention(const struct model *m, int64_t rows, int check);
void measure_attention_dropout(const struct model *m, int64_t rows);

/* speed_moves.c */
void measure_norms(const struct model *m, int64_t rows, int check);
void measure_llama_parts(const struct model *m, int64_t rows, int check);
void measure_embeddings(const struct model *m, int64_t rows, int large, int check);
void measure_losses(const struct model *m, int64_t rows, int check);
void measure_optimizer(const struct model *m, int check);

#endif
