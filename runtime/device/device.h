/* The device: memory, streams, events and every kernel of training, behind one interface.
 *
 * A backend (cpu, cuda) is a `struct device` whose functions the caller reaches through the inline
 * calls below. Work has two phases. plan_create() takes an operation with its whole shape, types
 * and epilogue and makes a plan, which owns descriptors, the chosen algorithm and workspace; it may
 * take long and allocate. The run calls take a plan, a stream and pointers and nothing else; they
 * never allocate, never wait, and may be captured in a graph.
 *
 * Conventions
 * - Matrices are row-major and dense unless strides are given. A row is one token; rows are ordered
 *   sample by sample: row = sample * sequence + position. Sequence parallelism cuts rows into
 * equal, consecutive parts.
 * - Weights are (out, in), as PyTorch has them. 'type' is the type of weights and activations;
 *   statistics, losses, main gradients, master weights and moments are fp32.
 * - Pointers are device memory, aligned to DEVICE_ALIGNMENT where they begin a tensor of an arena
 *   and at least to their element otherwise. Input and output may be the same only where said.
 * - Gradients of weights, biases and norms go straight into fp32 main gradients: with 'accumulate'
 * 0 the call overwrites them (first micro-batch, so nothing is ever cleared), with 1 it adds.
 * - Every operation gives the same bits when repeated, attention backward on a GPU excepted unless
 *   the device is opened deterministic.
 * - Two runs of one plan must not overlap in time on different streams: the workspace is one.
 *
 * Errors: plan and memory calls return NULL or -1 with a sentence. Run, copy and event calls return
 * nothing; the first failure stays in the device and comes out of every later device_wait_*.
 *
 * A device operation never contains a collective (comm.h has those). */
#ifndef MEGATRON_DEVICE_H
#define MEGATRON_DEVICE_H

#include <stddef.h>
#include <stdint.h>
#include "error.h"
#include "step.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DEVICE_ABI       4   /* of this header; a backend with another one is refused */
#define DEVICE_OPERANDS  512 /* bytes; no operands are larger */
#define DEVICE_ALIGNMENT 256 /* bytes; of memory from device_allocate and of tensors in arenas */

enum device_type { TYPE_FP32, TYPE_BF16, TYPE_FP16, TYPE_FP64, TYPE_INT32, TYPE_INT64 };

static inline size_t type_size(enum device_type type)
{
    return type == TYPE_BF16 || type == TYPE_FP16    ? 2
           : type == TYPE_FP64 || type == TYPE_INT64 ? 8
                                                     : 4;
}

/* --- Operations ----------------------------------------------------------------------------- */

enum operation_kind {
    OPERATION_LINEAR_FORWARD,
    OPERATION_LINEAR_DGRAD,
    OPERATION_LINEAR_WGRAD,
    OPERATION_ACTIVATION,
    OPERATION_RESIDUAL_NORM,
    OPERATION_RESIDUAL_NORM_BACKWARD,
    OPERATION_ATTENTION,
    OPERATION_ATTENTION_BACKWARD,
    OPERATION_ROPE,
    OPERATION_SWIGLU,
    OPERATION_SWIGLU_BACKWARD,
    OPERATION_EMBEDDING,
    OPERATION_EMBEDDING_BACKWARD,
    OPERATION_CROSS_ENTROPY_PARTIAL,
    OPERATION_CROSS_ENTROPY_FINISH,
    OPERATION_ADAM,
    OPERATION_SQUARE_SUM,
    OPERATION_STEP,
    OPERATION_CONVERT,
    OPERATION_ADD,
    OPERATION_GATHER_ROWS,
    OPERATION_NORMAL,
    OPERATION_FILL,
    OPERATION_COUNT,
};

enum activation { ACTIVATION_NONE, ACTIVATION_GELU }; /* GELU: the tanh form */

/* y = activation(x W^T + bias).
 * LINEAR_FORWARD: 'bias' and 'activation' are the epilogue; with save_pre the value before the
 *   activation is written to 'pre' too.
 * LINEAR_DGRAD: dx = dy W. With 'activation' the result is multiplied by the activation's gradient
 *   at 'pre' (rows, in), the saved value of the layer that made x; with 'bias' the column sums of
 *   the result are that layer's bias gradient 'dbias' (in).
 * LINEAR_WGRAD: dW = dy^T x; with 'bias' also dbias (out) = column sums of dy. 'activation' NONE.
 */
struct linear_shape {
    int64_t rows, in, out;
    enum device_type type; /* of all but the main gradients */
    int bias;
    enum activation activation;
    int save_pre;
};

struct linear_forward_operands {
    const void *x;      /* (rows, in) */
    const void *weight; /* (out, in) */
    const void *bias;   /* (out) */
    void *y;            /* (rows, out) */
    void *pre;          /* (rows, out) */
};

struct linear_dgrad_operands {
    const void *dy;     /* (rows, out) */
    const void *weight; /* (out, in) */
    const void *pre;    /* (rows, in) */
    void *dx;           /* (rows, in) */
    float *dbias;       /* (in) main gradient of the layer before */
    int accumulate;     /* of dbias */
};

struct linear_wgrad_operands {
    const void *dy; /* (rows, out) */
    const void *x;  /* (rows, in) */
    float *dweight; /* (out, in) main gradient */
    float *dbias;   /* (out) main gradient */
    int accumulate; /* of both */
};

/* y = activation(x), to make an activation again that was not kept. */
struct activation_shape {
    int64_t count;
    enum device_type type;
    enum activation activation;
};

struct activation_operands {
    const void *x;
    void *y;
};

/* One step of the residual stream, all of it optional:
 *     sum = residual + dropout(x + bias)        y = norm(sum) * weight (+ norm_bias)
 * Without 'input' there is no x: sum is 'residual', 'sum' is not written. Without 'residual' there
 * is no addend: sum = dropout(x + bias). With NORM_NONE there is no y, mean and rstd.
 * Row r, column c is dropped by element row_index[r] * cols + c of (seed, purpose, iteration). */
enum norm { NORM_NONE, NORM_LAYER, NORM_RMS };

struct residual_norm_shape {
    int64_t rows, cols;
    enum device_type type;
    enum norm norm;
    double epsilon;
    int input, bias, residual;
    double dropout;
};

struct residual_norm_operands {
    const void *x;            /* (rows, cols) */
    const void *bias;         /* (cols) */
    const void *residual;     /* (rows, cols) */
    void *sum;                /* (rows, cols); may be the memory of 'residual' or 'x' */
    const void *weight;       /* (cols) */
    const void *norm_bias;    /* (cols), NORM_LAYER only */
    void *y;                  /* (rows, cols); may be the memory of 'x' */
    float *mean, *rstd;       /* (rows); mean for NORM_LAYER only */
    const int64_t *row_index; /* (rows) number of each row in the global batch; for dropout */
    const struct step_state *state;
    uint32_t purpose;
};

/* With d = dsum + norm'(dy): gradient of everything that went in.
 * dresidual = d; dx = dropout'(d); dbias = column sums of dx. Where dropout is 0, dx would equal
 * dresidual: it is not written, and the caller uses dresidual. Without 'residual' in the shape
 * dresidual serves as scratch only. dsum NULL counts as 0 (the last norm of the model); dy is
 * unused with NORM_NONE. */
struct residual_norm_backward_operands {
    const void *dy;           /* (rows, cols) */
    const void *dsum;         /* (rows, cols) gradient of sum by its other readers, or NULL */
    const void *sum;          /* (rows, cols) as the forward left it */
    const void *weight;       /* (cols) */
    const float *mean, *rstd; /* (rows) as the forward left them */
    void *dresidual;          /* (rows, cols); may be the memory of dsum or dy */
    void *dx;                 /* (rows, cols); not the memory of dresidual */
    float *dweight, *dnorm_bias, *dbias; /* (cols) main gradients */
    int accumulate;                      /* of these three */
    const int64_t *row_index;
    const struct step_state *state;
    uint32_t purpose;
};

/* Softmax attention of 'heads' query heads on 'kv_heads' key and value heads (query head h uses
 * h / (heads / kv_heads)). Element (sample b, row s, head h, channel c) of a tensor stands at
 * b * batch + s * row + h * head + c of its pointer, in elements; the pointer itself is as many
 * elements behind an aligned address as some samples, rows and heads take. Query s sits at position
 * s + kv_rows - q_rows among the keys; with 'causal' it sees keys up to itself, with 'documents'
 * only keys from document_start on.
 * With 'cached' (forward only, with 'causal' and without dropout) keys and values are those of a
 * cache with kv_rows places, and each query sits where 'positions' says. Places behind the largest
 * position of a sample are not looked at, but must hold finite numbers. */
struct attention_stride {
    int64_t batch, row, head;
};

struct attention_shape {
    int64_t batch, q_rows, kv_rows, heads, kv_heads, head_size;
    enum device_type type;
    struct attention_stride q, kv, out; /* of q and dq; of k, v, dk, dv; of out and dout */
    double scale;                       /* of the scores, 1 / sqrt(head_size) usually */
    int causal, documents, cached;
    /* Probability (sample, head, query, key) is dropped by element
     * ((sample * all_heads + first_head + head) * sequence + query) * sequence + key, where
     * sample and query come from row_index = sample * sequence + query position. */
    double dropout;
    int64_t all_heads, first_head, sequence;
};

struct attention_operands {
    const void *q, *k, *v;
    void *out;
    float *lse;                    /* (batch, heads, q_rows) log of the sum of exp(scores) */
    const int32_t *document_start; /* (batch, q_rows) first key each query sees */
    const int64_t *row_index;      /* (batch, q_rows); for dropout */
    const struct step_state *state;
    uint32_t purpose;
    const int32_t *positions; /* (batch, q_rows) place of each query; for 'cached' */
};

struct attention_backward_operands {
    const void *q, *k, *v, *out, *dout;
    const float *lse;
    void *dq, *dk, *dv; /* overwritten */
    const int32_t *document_start;
    const int64_t *row_index;
    const struct step_state *state;
    uint32_t purpose;
};

/* Rotate, in place, the first 'rotary' channels of 'heads' heads of each row: channel c < rotary/2
 * pairs with c + rotary/2; (a, b) -> (a cos - b sin, b cos + a sin), with the sine's sign turned
 * for the gradient ('backward'). Query and key heads lie side by side, so one call does both. */
struct rope_shape {
    int64_t rows, heads, head_size, rotary;
    int64_t row_stride; /* elements from one row to the next */
    enum device_type type;
    int backward;
};

struct rope_operands {
    void *x;                    /* (rows, heads, head_size), row_stride apart */
    const int32_t *positions;   /* (rows) */
    const float *cosine, *sine; /* (positions, rotary / 2) */
};

/* y = silu(gate) * up, where a row of x is (gate, up), 'cols' each. */
struct swiglu_shape {
    int64_t rows, cols;
    enum device_type type;
};

struct swiglu_operands {
    const void *x; /* (rows, 2 * cols) */
    void *y;       /* (rows, cols) */
};

struct swiglu_backward_operands {
    const void *dy; /* (rows, cols) */
    const void *x;  /* (rows, 2 * cols) */
    void *dx;       /* (rows, 2 * cols); may be the memory of x */
};

/* out = table[index - first] where 0 <= index - first < table_rows, else 0; with 'second' also
 * + second_table[second_index]; with 'accumulate' in the shape + what 'out' held. */
struct embedding_shape {
    int64_t rows, cols;
    int64_t first, table_rows;
    enum device_type type;
    int second;
    int accumulate;
};

struct embedding_operands {
    const int32_t *index; /* (rows) */
    const void *table;    /* (table_rows, cols) */
    const int32_t *second_index;
    const void *second_table;
    void *out; /* (rows, cols) */
};

/* dtable[index - first] += dout, rows of one index in ascending order. A table_rows x cols main
 * gradient is cleared first unless 'accumulate'. One table per call ('second' is ignored). */
struct embedding_backward_operands {
    const int32_t *index; /* (rows) */
    const void *dout;     /* (rows, cols) */
    float *dtable;        /* (table_rows, cols) */
    int accumulate;
};

/* Cross entropy around the collective, vocabulary-parallel: this rank holds columns first ..
 * first + cols - 1 of the logits; columns from 'vocabulary' on are padding and take no part.
 * PARTIAL: per row maximum, sum of exp(logit - maximum), and the target's logit (0 if it is
 *   another rank's). A rank without true columns gives maximum -inf and sum 0.
 * FINISH: combines the partials of 'parts' ranks (all-gathered: (parts, 3, rows)), gives
 *   loss[r] = log(sum) + max - target, adds sum of weight[r] * loss[r] to state->loss, and turns
 *   the logits into the gradient (softmax - onehot) * weight[r] * state->loss_scale in place
 *   (padding gets 0). Without 'backward' logits stay as they are. With one part 'partials' may be
 *   NULL: FINISH then does both halves in one pass. */
struct cross_entropy_shape {
    int64_t rows, cols;
    int64_t first, vocabulary;
    enum device_type type; /* of the logits */
    int parts;
    int backward;
};

struct cross_entropy_partial_operands {
    const void *logits;     /* (rows, cols) */
    const int32_t *targets; /* (rows) */
    float *partial;         /* (3, rows): maximum, sum, target */
};

struct cross_entropy_finish_operands {
    void *logits; /* (rows, cols) */
    const int32_t *targets;
    const float *partials; /* (parts, 3, rows), or NULL for one part */
    const float *weight;   /* (rows) share of each token in the step's loss; 0: masked */
    float *loss;           /* (rows) or NULL */
    struct step_state *state;
};

/* Adam with decoupled weight decay on 'count' elements, the first 'decayed' of them with decay:
 * g = grad * state->grad_factor; moments are divided by state's corrections; nothing changes if
 * state->skip. */
struct adam_shape {
    int64_t count, decayed;
    double beta1, beta2, epsilon;
    enum device_type type; /* of 'weights' */
};

struct adam_operands {
    const float *grad;
    float *master, *moment1, *moment2;
    void *weights; /* the copy kernels read; NULL where 'master' itself is it (fp32) */
    const struct step_state *state;
};

/* *sum += sum of squares, in double precision, in an order fixed by 'count'. */
struct square_sum_shape {
    int64_t count;
};

struct square_sum_operands {
    const float *x;
    double *sum;
};

/* The rules of step.h. */
struct step_shape {
    struct step_rules rules;
    enum step_phase phase;
};

struct step_operands {
    struct step_state *state;
};

struct convert_shape {
    int64_t count;
    enum device_type from, to;
};

struct convert_operands {
    const void *from;
    void *to; /* may be the memory of 'from' if no wider */
};

/* y += x */
struct add_shape {
    int64_t count;
    enum device_type type;
};

struct add_operands {
    const void *x;
    void *y;
};

/* out[r] = x[index[r]]; rows with index < 0 become 0. With 'scatter' the other way: out[index[r]] =
 * x[r]; rows with index < 0 go nowhere, and no two may go to one place. */
struct gather_rows_shape {
    int64_t rows, cols;
    enum device_type type;
    int64_t x_stride, out_stride; /* elements from row to row; 0: cols */
    int scatter;
};

struct gather_rows_operands {
    const void *x; /* (any, cols) */
    const int32_t *index;
    void *out; /* (rows, cols) */
};

/* Normal numbers: element (r, c) is number (first_row + r) * all_cols + first_col + c of
 * (seed, purpose, 0), times 'deviation'. rng.h says which. */
struct normal_shape {
    int64_t rows, cols, first_row, first_col, all_cols;
    double deviation;
};

struct normal_operands {
    float *out; /* (rows, cols) */
    uint64_t seed;
    uint32_t purpose;
};

struct fill_shape {
    int64_t count;
    enum device_type type;
    double value;
};

struct fill_operands {
    void *out;
};

struct operation {
    enum operation_kind kind;
    int head; /* of the model's head: for a profile */
    union {
        struct linear_shape linear;
        struct activation_shape activation;
        struct residual_norm_shape residual_norm;
        struct attention_shape attention;
        struct rope_shape rope;
        struct swiglu_shape swiglu;
        struct embedding_shape embedding;
        struct cross_entropy_shape cross_entropy;
        struct adam_shape adam;
        struct square_sum_shape square_sum;
        struct step_shape step;
        struct convert_shape convert;
        struct add_shape add;
        struct gather_rows_shape gather_rows;
        struct normal_shape normal;
        struct fill_shape fill;
    };
};

/* --- The device ----------------------------------------------------------------------------- */

struct device;
struct device_stream;
struct device_event;
struct device_graph;

/* The head of every backend's plan. */
struct device_plan {
    struct device *device;
    enum operation_kind kind;
    void (*run)(struct device_plan *plan, struct device_stream *stream, const void *operands,
                size_t size);
};

struct device_options {
    int index;             /* which GPU, of those the process sees; -1: by local_rank in turn */
    int local_rank;        /* of this process among those of its node */
    int threads;           /* cpu: threads of this rank; 0: all cores the process may use */
    int deterministic;     /* no operation may depend on timing */
    int random_order;      /* cpu: run streams in random legal order, for tests */
    uint64_t order_seed;   /* of that order */
    const char *cache_dir; /* where tuning results are kept, or NULL */
};

struct device_memory {
    size_t total, available; /* bytes */
};

enum device_copy { COPY_TO_DEVICE, COPY_TO_HOST, COPY_ON_DEVICE };

/* What a backend implements; the inline calls below say what each does. */
struct device {
    int abi;          /* DEVICE_ABI */
    const char *name; /* "cpu", "cuda" */
    char model[128];  /* for people: "NVIDIA H200" */
    int can_capture;  /* graph_begin works */
    int ran_out;      /* of memory, which a failure then is due to */

    void (*close)(struct device *device);
    void (*fail)(struct device *device, const char *text);
    int (*memory)(struct device *device, struct device_memory *memory, struct error *err);
    int (*health)(struct device *device, char *text, size_t size, struct error *err);
    int (*supports)(struct device *device, enum device_type type);

    void *(*allocate)(struct device *device, size_t bytes, struct error *err);
    void (*release)(struct device *device, void *memory);
    void *(*host_allocate)(struct device *device, size_t bytes, struct error *err);
    void (*host_release)(struct device *device, void *memory);

    struct device_stream *(*stream_create)(struct device *device, int high_priority,
                                           struct error *err);
    void (*stream_destroy)(struct device_stream *stream);
    int (*stream_wait)(struct device_stream *stream, double seconds, struct error *err);
    void *(*stream_native)(struct device_stream *stream);
    void (*stream_poll)(struct device_stream *stream, int (*poll)(void *operands, int waits),
                        const void *operands, size_t size, int later);

    struct device_event *(*event_create)(struct device *device, int timing, struct error *err);
    void (*event_destroy)(struct device_event *event);
    void (*event_record)(struct device_event *event, struct device_stream *stream);
    void (*event_follow)(struct device_stream *stream, struct device_event *event);
    int (*event_wait)(struct device_event *event, double seconds, struct error *err);
    int (*event_done)(struct device_event *event);
    double (*event_seconds)(struct device_event *from, struct device_event *to);

    void (*copy)(struct device_stream *stream, void *to, const void *from, size_t bytes,
                 enum device_copy direction);

    int (*graph_begin)(struct device_stream *stream, struct error *err);
    struct device_graph *(*graph_end)(struct device_stream *stream, struct error *err);
    void (*graph_launch)(struct device_graph *graph, struct device_stream *stream);
    void (*graph_destroy)(struct device_graph *graph);

    struct device_plan *(*plan_create)(struct device *device, const struct operation *operation,
                                       struct error *err);
    void (*plan_destroy)(struct device_plan *plan);

    /* The choices that timing made for the plans so far, as lines "key value" (a text to free), and
     * a way to have the next plans made by such lines. NULL where nothing is chosen by timing. */
    char *(*choices)(struct device *device, struct error *err);
    int (*choose)(struct device *device, const char *text, struct error *err);

    /* Have 'each' called for every operation from now on with the time it took, at once or at the
     * stop, which waits for all of them. */
    int (*profile_start)(struct device *device,
                         void (*each)(void *context, const struct operation *operation,
                                      double seconds),
                         void *context, struct error *err);
    int (*profile_stop)(struct device *device, struct error *err);
};

/* The heads of every backend's stream, event and graph: the calls below find the device by them. */
struct device_stream {
    struct device *device;
};
struct device_event {
    struct device *device;
};
struct device_graph {
    struct device *device;
};

/* Open backend 'name': "cpu" is built in, others are device_NAME.so in the package's library
 * directory (or $MEGATRON_LIBRARY_DIR). Returns NULL with a sentence that says which library,
 * driver or device is missing. Caller must device_close. */
struct device *device_open(const char *name, const struct device_options *options,
                           struct error *err);

/* The symbol a backend's shared object exports: "device_backend_open". */
typedef struct device *device_backend_open_function(const struct device_options *options,
                                                    struct error *err);

/* Plans, streams, events and memory of the device must be gone. NULL is allowed, as below. */
static inline void device_close(struct device *device)
{
    if (device)
        device->close(device);
}

/* How much memory the device has, and how much of it this process could still get. */
static inline int device_memory(struct device *device, struct device_memory *memory,
                                struct error *err)
{
    return device->memory(device, memory, err);
}

/* Look for what makes a working device slow or unreliable: one line each in 'text', nothing to say
 * leaves it empty. Returns -1 if the device should not be used at all. */
static inline int device_health(struct device *device, char *text, size_t size, struct error *err)
{
    text[0] = '\0';
    return device->health ? device->health(device, text, size, err) : 0;
}

/* Leave a failure in the device, as if an operation had failed; the first one stays. For comm. From
 * any thread. */
static inline void device_fail(struct device *device, const char *text)
{
    device->fail(device, text);
}

/* Can plans have this type for weights and activations? */
static inline int device_supports(struct device *device, enum device_type type)
{
    return device->supports(device, type);
}

/* Device memory, not initialised; one call per arena. */
static inline void *device_allocate(struct device *device, size_t bytes, struct error *err)
{
    return device->allocate(device, bytes, err);
}

static inline void device_release(struct device *device, void *memory)
{
    if (memory)
        device->release(device, memory);
}

/* Host memory that copies can read and write while the host goes on. */
static inline void *device_host_allocate(struct device *device, size_t bytes, struct error *err)
{
    return device->host_allocate(device, bytes, err);
}

static inline void device_host_release(struct device *device, void *memory)
{
    if (memory)
        device->host_release(device, memory);
}

/* A queue of work in order; streams run side by side unless events order them. */
static inline struct device_stream *device_stream_create(struct device *device, int high_priority,
                                                         struct error *err)
{
    return device->stream_create(device, high_priority, err);
}

static inline void device_stream_destroy(struct device_stream *stream)
{
    if (stream)
        stream->device->stream_destroy(stream);
}

/* Wait until all work of the stream is done. Returns -1 after 'seconds' or with the first error any
 * earlier call left in the device. */
static inline int device_stream_wait(struct device_stream *stream, double seconds,
                                     struct error *err)
{
    return stream->device->stream_wait(stream, seconds, err);
}

/* The backend's own handle (cudaStream_t), for comm; NULL on a CPU. */
static inline void *device_stream_native(struct device_stream *stream)
{
    return stream->device->stream_native(stream);
}

/* Call a host function in stream order, with a copy of 'size' (at most DEVICE_OPERANDS) bytes that
 * is its own, again and again until it returns 1; other streams go on meanwhile. 'waits' tells it
 * whether somebody waits, or asks in passing only. It may not call the device. On a CPU this is how
 * communication gets into a stream: with 'later' it may be left unfinished until somebody waits for
 * it or follows it, without it is done where it is given, unless the stream holds such work
 * already.
 */
static inline void device_stream_poll(struct device_stream *stream,
                                      int (*poll)(void *operands, int waits), const void *operands,
                                      size_t size, int later)
{
    stream->device->stream_poll(stream, poll, operands, size, later);
}

/* A mark in a stream; 'timing' for event_seconds. */
static inline struct device_event *device_event_create(struct device *device, int timing,
                                                       struct error *err)
{
    return device->event_create(device, timing, err);
}

static inline void device_event_destroy(struct device_event *event)
{
    if (event)
        event->device->event_destroy(event);
}

/* Mark what the stream holds now. Recording again moves the mark. */
static inline void device_event_record(struct device_event *event, struct device_stream *stream)
{
    event->device->event_record(event, stream);
}

/* Later work of 'stream' waits for the mark as it was last recorded (an event never recorded holds
 * nothing up). */
static inline void device_event_follow(struct device_stream *stream, struct device_event *event)
{
    event->device->event_follow(stream, event);
}

/* The host waits for the mark, like device_stream_wait. */
static inline int device_event_wait(struct device_event *event, double seconds, struct error *err)
{
    return event->device->event_wait(event, seconds, err);
}

/* Is the mark passed? Never waits. */
static inline int device_event_done(struct device_event *event)
{
    return event->device->event_done(event);
}

/* Seconds between two marks that have passed, both made with 'timing'. */
static inline double device_event_seconds(struct device_event *from, struct device_event *to)
{
    return from->device->event_seconds(from, to);
}

/* Copy in stream order; host memory is from device_host_allocate. */
static inline void device_copy(struct device_stream *stream, void *to, const void *from,
                               size_t bytes, enum device_copy direction)
{
    stream->device->copy(stream, to, from, bytes, direction);
}

/* Between begin and end, work given to the stream is recorded instead of run, and launching the
 * graph runs it. Only where device->can_capture, and only work without events and communication.
 * Plans and operands must outlive the graph, which the caller destroys. What cannot be recorded is
 * no failure of the device: end returns NULL then. */
static inline int device_graph_begin(struct device_stream *stream, struct error *err)
{
    return stream->device->graph_begin(stream, err);
}

static inline struct device_graph *device_graph_end(struct device_stream *stream, struct error *err)
{
    return stream->device->graph_end(stream, err);
}

static inline void device_graph_launch(struct device_graph *graph, struct device_stream *stream)
{
    graph->device->graph_launch(graph, stream);
}

static inline void device_graph_destroy(struct device_graph *graph)
{
    if (graph)
        graph->device->graph_destroy(graph);
}

/* Make a plan for 'operation'. NULL with a sentence where the device cannot do it in that shape or
 * type. Caller must plan_destroy, before the device is closed. */
static inline struct device_plan *plan_create(struct device *device,
                                              const struct operation *operation, struct error *err)
{
    return device->plan_create(device, operation, err);
}

static inline void plan_destroy(struct device_plan *plan)
{
    if (plan)
        plan->device->plan_destroy(plan);
}

/* run_NAME(plan, stream, operands): one typed call per kind of operation. */
#define DEVICE_RUN(name)                                                                  \
    static inline void run_##name(struct device_plan *plan, struct device_stream *stream, \
                                  const struct name##_operands *operands)                 \
    {                                                                                     \
        plan->run(plan, stream, operands, sizeof(*operands));                             \
    }
DEVICE_RUN(linear_forward)
DEVICE_RUN(linear_dgrad)
DEVICE_RUN(linear_wgrad)
DEVICE_RUN(activation)
DEVICE_RUN(residual_norm)
DEVICE_RUN(residual_norm_backward)
DEVICE_RUN(attention)
DEVICE_RUN(attention_backward)
DEVICE_RUN(rope)
DEVICE_RUN(swiglu)
DEVICE_RUN(swiglu_backward)
DEVICE_RUN(embedding)
DEVICE_RUN(embedding_backward)
DEVICE_RUN(cross_entropy_partial)
DEVICE_RUN(cross_entropy_finish)
DEVICE_RUN(adam)
DEVICE_RUN(square_sum)
DEVICE_RUN(step)
DEVICE_RUN(convert)
DEVICE_RUN(add)
DEVICE_RUN(gather_rows)
DEVICE_RUN(normal)
DEVICE_RUN(fill)
#undef DEVICE_RUN

#ifdef __cplusplus
}
#endif

#endif
