/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"
#include "batches.h"
#include "messages.h"
#include "pipeline.h"
#include "recorder.h"
#include "base/core/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The numbers of a step in pinned host memory, from where they are copied to the device. */
struct step_numbers {
    struct step_state *numbers; /* only the fields that the host writes are used */
    struct device_event *copied;
};

enum { STEPS_AHEAD = 4, STEPS_TIMED = 8 };

struct engine {
    struct engine_config config;
    const struct parallel *parallel;
    struct device *device;
    struct model *model;
    struct optimizer *optimizer;
    struct device_stream *stream;
    int slots;
    struct recorder *recorder; /* NULL: every pass is launched operation by operation */
    struct pipeline train, evaluate;
    int64_t train_micros, evaluate_micros; /* micro-batches of these schedules */
    struct batches *batches;
    struct messages *messages;
    struct step_numbers numbers[STEPS_AHEAD];
    struct step_state *report, *late_report; /* host memory */
    struct device_event *reported[2];        /* the last two */
    int64_t reports;
    /* Of the last steps: from the begin to the pass that starts to reduce gradients. */
    struct device_event *began[STEPS_TIMED], *passed[STEPS_TIMED];
    int timing; /* the step's end has not been recorded */
    int64_t steps, timed;
    int (*busy)(void *context, struct error *err); /* see engine_on_busy; or NULL */
    void *busy_context;
    int told; /* 'busy' was called in this step */
};

/* With an interleaved schedule, a step of as many micro-batches as stages does not alternate
 * forward and backward passes and can need more slots than larger steps; beyond that, slots grow
 * with the number of micro-batches. So the smallest and the largest step determine the maximum. */
int engine_slots(const struct engine_config *config, const struct layout *layout, int64_t stage,
                 int *slots, struct error *err)
{
    const struct {
        int64_t micros;
        int forward_only;
    } runs[] = {{config->min_micros, 0}, {config->max_micros, 0}, {config->eval_micros, 1}};

    *slots = 0;
    for (int i = 0; i < 3; i++) {
        struct pipeline_shape shape = {(int)layout->pp, (int)stage, (int)config->model.split.chunks,
                                       (int)runs[i].micros, runs[i].forward_only};
        int needed;

        if (shape.micros == 0)
            continue;
        if (pipeline_slots(&shape, &needed, err) < 0)
            return -1;
        *slots = needed > *slots ? needed : *slots;
    }
    return 0;
}

static int create_numbers(struct engine *e, struct error *err)
{
    for (int i = 0; i < STEPS_AHEAD; i++) {
        e->numbers[i].numbers = device_host_allocate(e->device, sizeof(struct step_state), err);
        e->numbers[i].copied = device_event_create(e->device, 0);
        if (!e->numbers[i].numbers)
            return -1;
    }
    e->report = device_host_allocate(e->device, sizeof(*e->report), err);
    e->late_report = e->report ? device_host_allocate(e->device, sizeof(*e->report), err) : NULL;
    return e->late_report ? 0 : -1;
}

static void create_timing(struct engine *e)
{
    for (int i = 0; i < 2; i++)
        e->reported[i] = device_event_create(e->device, 1);
    for (int i = 0; i < STEPS_TIMED; i++) {
        e->began[i] = device_event_create(e->device, 1);
        e->passed[i] = device_event_create(e->device, 1);
    }
}

/* Batches, messages between stages, and the numbers of a step. */
static int create_transfers(struct engine *e, struct error *err)
{
    const struct model_config *config = &e->config.model;

    e->messages =
        messages_create(e->model, e->parallel, e->device, config->numerics.type, e->slots);
    e->batches =
        batches_create(e->model, config, e->parallel, e->device, e->slots, e->config.deadline, err);
    return e->batches ? create_numbers(e, err) : -1;
}

/* --- Passes ---------------------------------------------------------------------------------- */

/* One pass, and everything that determines its operations. */
struct scheduled_pass {
    struct engine *engine;
    struct pipeline_item item;
    int backward, evaluate, accumulate;
};

/* Different passes of a chunk with a slot: forward or backward, training or evaluation,
 * accumulating or not. */
enum { PASSES = 8 };

static int pass_number(const struct scheduled_pass *p)
{
    return (p->item.chunk * p->engine->slots + p->item.slot) * PASSES + 4 * p->backward +
           2 * p->evaluate + p->accumulate;
}

/* Passes that use no stream but the model's can be recorded. All but the first micro-batch of a
 * step accumulate, and an evaluation uses one slot, so at most 2 * (slots + 1) + 1 graphs of each
 * chunk are recorded. */
static void create_recorder(struct engine *e)
{
    const struct layout *layout = &e->parallel->layout;

    if (!e->config.one_by_one && layout->tp == 1 && layout->cp == 1)
        e->recorder =
            recorder_create(e->stream, (int)e->config.model.split.chunks * e->slots * PASSES);
}

static void run_pass(void *context)
{
    const struct scheduled_pass *p = context;
    struct model *model = p->engine->model;
    int chunk = p->item.chunk, slot = p->item.slot;

    if (p->backward)
        model_backward(model, chunk, slot, p->accumulate, NULL, NULL);
    else
        model_forward(model, chunk, slot, p->evaluate, p->accumulate);
}

/* In the last backward pass of a step: complete gradients are reduced while the rest is computed.
 */
static void reduce_layer(void *context, int chunk, int64_t layer)
{
    optimizer_reduce(context, chunk, layer);
}

/* 'last': it is the chunk's last backward pass of the step. */
static void do_pass(struct scheduled_pass *p, int last)
{
    struct engine *e = p->engine;

    if (last && e->timing) {
        device_event_record(e->passed[e->steps % STEPS_TIMED], e->stream);
        e->timing = 0;
        e->timed++;
    }
    if (p->backward && last && optimizer_overlaps(e->optimizer))
        model_backward(e->model, p->item.chunk, p->item.slot, p->accumulate, reduce_layer,
                       e->optimizer);
    else if (e->recorder && model_is_settled(e->model) &&
             (p->backward || !optimizer_gathers(e->optimizer)))
        recorder_run(e->recorder, pass_number(p), run_pass, p);
    else
        run_pass(p);
}

struct engine *engine_create(const struct engine_config *config, const struct parallel *parallel,
                             struct device *device, struct error *err)
{
    struct engine *e = xcalloc(1, sizeof(*e));

    e->config = *config;
    e->parallel = parallel;
    e->device = device;
    if (engine_slots(config, &parallel->layout, parallel->at.pp, &e->slots, err) < 0) {
        engine_destroy(e);
        return NULL;
    }
    e->model = model_create(&config->model, parallel, device, e->slots, err);
    if (e->model) {
        e->stream = model_facts(e->model).stream;
        e->optimizer = optimizer_create(&config->optimizer, e->model, parallel, device,
                                        config->model.numerics.type, err);
    }
    create_timing(e);
    if (!e->optimizer || create_transfers(e, err) < 0) {
        engine_destroy(e);
        return NULL;
    }
    create_recorder(e);
    return e;
}

void engine_destroy(struct engine *e)
{
    if (!e)
        return;
    messages_destroy(e->messages);
    batches_destroy(e->batches);
    for (int i = 0; i < STEPS_AHEAD; i++) {
        device_event_destroy(e->numbers[i].copied);
        device_host_release(e->device, e->numbers[i].numbers);
    }
    for (int i = 0; i < STEPS_TIMED; i++) {
        device_event_destroy(e->began[i]);
        device_event_destroy(e->passed[i]);
    }
    device_event_destroy(e->reported[0]);
    device_event_destroy(e->reported[1]);
    device_host_release(e->device, e->late_report);
    device_host_release(e->device, e->report);
    recorder_destroy(e->recorder);
    optimizer_destroy(e->optimizer);
    model_destroy(e->model);
    pipeline_destroy(&e->train);
    pipeline_destroy(&e->evaluate);
    free(e);
}

struct model *engine_model(struct engine *engine)
{
    return engine->model;
}

struct optimizer *engine_optimizer(struct engine *engine)
{
    return engine->optimizer;
}

int engine_start(struct engine *e, int initialize, const struct step_state *resumed, uint64_t seed,
                 struct error *err)
{
    if ((initialize ? model_initialize : model_adopt)(e->model, err) < 0)
        return -1;
    return optimizer_start(e->optimizer, resumed, seed, err);
}

/* --- Steps ----------------------------------------------------------------------------------- */

/* One iteration of training or evaluation: its micro-batches. */
struct iteration {
    struct engine *engine;
    const struct pipeline *pipeline;
    struct batches_iteration batches;
    int evaluate;
    int *left; /* per chunk: backward passes that remain */
};

static int tell_busy(struct engine *e, struct error *err)
{
    if (e->told || !e->busy)
        return 0;
    e->told = 1;
    return e->busy(e->busy_context, err);
}

static int run_operation(struct iteration *iteration, const struct pipeline_operation *op,
                         struct error *err)
{
    struct engine *e = iteration->engine;
    struct scheduled_pass pass = {e, op->item, op->kind == PIPELINE_BACKWARD, iteration->evaluate,
                                  !iteration->evaluate && op->item.micro > 0};
    int last;

    if (op->kind == PIPELINE_ACTIVATIONS || op->kind == PIPELINE_GRADIENTS) {
        messages_exchange(e->messages, op);
        return 0;
    }
    if (!pass.backward && batches_give(e->batches, &iteration->batches, op->item, err) < 0)
        return -1;
    messages_await(e->messages, op);
    last = pass.backward && --iteration->left[op->item.chunk] == 0;
    do_pass(&pass, last);
    messages_passed(e->messages, op);
    return pass.backward && !last ? tell_busy(e, err) : 0;
}

static int run_pipeline(struct iteration *iteration, struct error *err)
{
    for (int i = 0; i < iteration->pipeline->count; i++)
        if (run_operation(iteration, &iteration->pipeline->list[i], err) < 0)
            return -1;
    messages_settle(iteration->engine->messages);
    return 0;
}

static int make_pipeline(struct engine *e, struct pipeline *p, int64_t *made_for, int64_t micros,
                         int forward_only, struct error *err)
{
    struct pipeline_shape shape = {(int)e->parallel->layout.pp, (int)e->parallel->at.pp,
                                   (int)e->config.model.split.chunks, (int)micros, forward_only};

    if (*made_for == micros)
        return 0;
    pipeline_destroy(p);
    *made_for = 0;
    if (pipeline_create(p, &shape, err) < 0)
        return -1;
    *made_for = micros;
    return 0;
}

static int run_micros(struct engine *e, const struct pipeline *p, struct batch_loader *loader,
                      int64_t micros, int evaluate, struct error *err)
{
    struct iteration iteration = {
        e, p, {loader, micros, e->config.optimizer.rules.per_token}, evaluate, NULL};
    int rc;

    iteration.left = xcalloc((size_t)e->config.model.split.chunks, sizeof(*iteration.left));
    for (int64_t c = 0; c < e->config.model.split.chunks; c++)
        iteration.left[c] = (int)micros;
    batches_begin(e->batches);
    rc = run_pipeline(&iteration, err);
    free(iteration.left);
    return rc;
}

/* Copy the numbers of this step to the state in device memory that kernels read. */
static int send_numbers(struct engine *e, int64_t iteration, int64_t samples, struct error *err)
{
    struct step_numbers *numbers = &e->numbers[iteration % STEPS_AHEAD];
    struct step_state *state = model_facts(e->model).state;

    if (device_event_wait(numbers->copied, e->config.deadline, err) < 0)
        return -1;
    numbers->numbers->iteration = iteration;
    numbers->numbers->samples = samples;
    device_copy(e->stream, state, numbers->numbers, offsetof(struct step_state, seed),
                COPY_TO_DEVICE);
    device_event_record(numbers->copied, e->stream);
    return 0;
}

/* Copy the token counts of this iteration, which are known once its micro-batches are. */
static void send_tokens(struct engine *e, struct step_numbers *numbers)
{
    struct step_state *state = model_facts(e->model).state;
    struct batches_tokens tokens = batches_tokens(e->batches);

    numbers->numbers->nominal = tokens.nominal;
    numbers->numbers->tokens = tokens.trained;
    device_copy(e->stream, &state->nominal, &numbers->numbers->nominal, 2 * sizeof(double),
                COPY_TO_DEVICE);
    device_event_record(numbers->copied, e->stream);
}

void engine_on_busy(struct engine *engine, int (*busy)(void *context, struct error *err),
                    void *context)
{
    engine->busy = busy;
    engine->busy_context = context;
}

int engine_step(struct engine *e, struct batch_loader *loader, int64_t iteration, int64_t micros,
                struct error *err)
{
    int64_t samples = micros * e->config.model.micro_batch * e->parallel->layout.dp;

    if (make_pipeline(e, &e->train, &e->train_micros, micros, 0, err) < 0 ||
        send_numbers(e, iteration, samples, err) < 0)
        return -1;
    optimizer_phase(e->optimizer, STEP_BEGIN);
    e->steps++;
    device_event_record(e->began[e->steps % STEPS_TIMED], e->stream);
    e->timing = 1;
    e->told = 0;
    if (run_micros(e, &e->train, loader, micros, 0, err) < 0)
        return -1;
    send_tokens(e, &e->numbers[iteration % STEPS_AHEAD]);
    optimizer_finish(e->optimizer);
    return tell_busy(e, err) < 0 ? -1 : comm_check(e->parallel->comm, err);
}

double engine_pass_seconds(const struct engine *e)
{
    int64_t count = e->timed < STEPS_TIMED ? e->timed : STEPS_TIMED;
    double least = count > 0 ? INFINITY : 0;

    for (int64_t step = e->steps - count + 1; step <= e->steps; step++)
        least = fmin(least, device_event_seconds(e->began[step % STEPS_TIMED],
                                                 e->passed[step % STEPS_TIMED]));
    return least;
}

int engine_evaluate(struct engine *e, struct batch_loader *loader, int64_t micros,
                    struct engine_losses *sums, struct error *err)
{
    struct step_state *state = model_facts(e->model).state;

    if (make_pipeline(e, &e->evaluate, &e->evaluate_micros, micros, 1, err) < 0 ||
        device_event_wait(e->numbers->copied, e->config.deadline, err) < 0)
        return -1;
    optimizer_phase(e->optimizer, STEP_BEGIN);
    if (run_micros(e, &e->evaluate, loader, micros, 1, err) < 0)
        return -1;
    send_tokens(e, e->numbers);
    if (e->parallel->data->size > 1)
        comm_all_reduce(e->parallel->data, e->stream, &state->tokens, STEP_LOSSES, TYPE_FP64,
                        COMM_SUM);
    if (engine_state(e, e->report, err) < 0)
        return -1;
    sums->lm += e->report->loss - e->report->pair_loss;
    sums->weight += e->report->tokens / e->report->nominal;
    sums->pair += e->report->pair_loss;
    sums->pair_weight++;
    return 0;
}

int engine_state(struct engine *e, struct step_state *state, struct error *err)
{
    optimizer_settle(e->optimizer);
    device_copy(e->stream, e->report, model_facts(e->model).state, sizeof(*e->report),
                COPY_TO_HOST);
    if (device_stream_wait(e->stream, e->config.deadline, err) < 0)
        return -1;
    if (state != e->report)
        *state = *e->report;
    return comm_check(e->parallel->comm, err);
}

void engine_report(struct engine *e)
{
    device_copy(e->stream, e->late_report, model_facts(e->model).state, sizeof(*e->report),
                COPY_TO_HOST);
    device_event_record(e->reported[++e->reports % 2], e->stream);
    optimizer_phase(e->optimizer, STEP_RESET);
}

int engine_report_done(const struct engine *e)
{
    return e->reports > 0 && device_event_done(e->reported[e->reports % 2]);
}

int engine_reported(struct engine *e, struct step_state *state, double *seconds, struct error *err)
{
    struct device_event *last = e->reported[e->reports % 2];

    if (device_event_wait(last, e->config.deadline, err) < 0)
        return -1;
    *state = *e->late_report;
    *seconds = e->reports > 1 ? device_event_seconds(e->reported[(e->reports - 1) % 2], last) : -1;
    return comm_check(e->parallel->comm, err);
}

int engine_params_norm(struct engine *e, double *norm, struct error *err)
{
    struct step_state state;

    optimizer_sum_weights(e->optimizer);
    if (engine_state(e, &state, err) < 0)
        return -1;
    *norm = sqrt(state.norm_squared);
    return 0;
}
