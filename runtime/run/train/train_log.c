/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines of steps, in Megatron-LM's and fairseq's formats. */
#include "train_private.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "lib/clock.h"
#include "base/core/log.h"
#include "rank_memory.h"

int train_check_standstill(const struct train *t, int64_t iteration, int64_t limit,
                           struct error *err)
{
    int64_t steps = standstill_steps(&t->standstill, iteration);

    if (steps < limit)
        return 0;
    return error_set(err,
                     "no optimizer step since iteration %" PRId64
                     " or earlier: the gradients of at least the last %" PRId64
                     " steps were inf or NaN; resume from an earlier checkpoint (--ckpt-step) with "
                     "a lower --lr, and check the data after that iteration",
                     iteration - steps, steps);
}

/* Bytes that the arenas of this rank take; they are allocated once, before the first step. */
static double memory_in_use(const struct train *t)
{
    struct rank_memory memory;
    struct error ignored;

    if (rank_memory_of(t->a, &t->parallel.at, &memory, &ignored) < 0)
        return -1;
    return (double)(memory.device.weights + memory.device.gradients + memory.device.optimizer +
                    memory.device.activations);
}

/* Count the tokens, samples and epochs of the steps from 'first' on. */
static int count_steps(struct train *t, int64_t first, int64_t steps, enum dataset_split split,
                       struct fairseq_line *line, struct error *err)
{
    struct masked *masked = train_masked(t, split);
    struct masked_step step;

    line->epoch = 1;
    line->update = (double)t->iteration / (double)t->total;
    line->sums.steps = (double)steps;
    if (!masked) {
        line->sums.sentences = (double)(steps * t->a->run.global_batch_size);
        line->sums.tokens = line->sums.sentences * (double)t->a->model.network.shape.sequence;
        return 0;
    }
    for (int64_t i = first; i < first + steps; i++) {
        if (masked_step_of(masked, i, &step, err) < 0)
            return -1;
        line->sums.tokens += (double)step.tokens;
        line->sums.sentences += (double)step.sentences;
        line->epoch = step.epoch;
        line->update =
            (double)(step.epoch - 1) + (double)step.in_epoch / (double)masked_steps(masked);
    }
    return 0;
}

/* Add to the sums of a line what the device counted, and everything else about its steps. */
static void fill_line(const struct train *t, const struct step_state *state, double seconds,
                      struct fairseq_line *line)
{
    line->sums.loss = state->loss_total - state->pair_total;
    line->sums.weight = state->weight_total;
    line->sums.norm = state->norm_total;
    line->sums.taken = (double)state->taken;
    line->sums.clipped = (double)state->clipped;
    line->sums.seconds = seconds;
    line->updates = state->adam_step;
    line->lr = state->lr;
    line->norm = state->grad_norm;
    line->clips = t->a->rules.clip > 0;
    line->scale = t->a->precision.fp16 ? state->loss_scale : 0;
    line->train_wall = t->train_seconds;
    line->wall = clock_now() - t->began;
}

static void add_sums(struct fairseq_sums *a, const struct fairseq_sums *b)
{
    a->loss += b->loss;
    a->weight += b->weight;
    a->norm += b->norm;
    a->taken += b->taken;
    a->clipped += b->clipped;
    a->seconds += b->seconds;
    a->tokens += b->tokens;
    a->sentences += b->sentences;
    a->steps += b->steps;
}

static int log_fairseq(struct train *t, const struct step_state *state, double seconds,
                       struct error *err)
{
    struct fairseq_line line = {0};
    int64_t steps = t->iteration - t->logged;

    if (count_steps(t, train_data_step(t) - steps, steps, DATASET_TRAIN, &line, err) < 0)
        return -1;
    t->train_seconds += seconds;
    fill_line(t, state, seconds, &line);
    add_sums(&t->epoch, &line.sums);
    fairseq_print_steps(&line, false, stdout);
    return 0;
}

/* The epoch of the last step. */
static int current_epoch(struct train *t, int64_t *epoch, struct error *err)
{
    struct fairseq_line now = {0};

    if (count_steps(t, train_data_step(t) - (t->iteration > 0), t->iteration > 0, DATASET_TRAIN,
                    &now, err) < 0)
        return -1;
    *epoch = now.epoch;
    return 0;
}

int train_log_fairseq_epoch(struct train *t, struct error *err)
{
    int64_t steps = t->iteration - t->logged;
    struct fairseq_line line = {0};
    struct fairseq_sums part;
    struct step_state state;
    double seconds;

    if (!t->prints || t->a->mlm.log_format != LOG_JSON || !train_masked(t, DATASET_TRAIN))
        return 0;
    if (engine_state(t->engine, &state, err) < 0 ||
        count_steps(t, train_data_step(t) - steps, steps, DATASET_TRAIN, &line, err) < 0 ||
        current_epoch(t, &line.epoch, err) < 0)
        return -1;
    seconds = steps > 0 ? clock_now() - t->finished - t->excluded : 0;
    fill_line(t, &state, seconds, &line);
    line.train_wall += seconds;
    part = line.sums;
    add_sums(&line.sums, &t->epoch);
    if (line.sums.steps <= 0)
        return 0;
    /* The next line of an interval contains 'part' again, which is not of the next epoch. */
    t->epoch = (struct fairseq_sums){-part.loss,   -part.weight,    -part.norm,
                                     -part.taken,  -part.clipped,   -part.seconds,
                                     -part.tokens, -part.sentences, -part.steps};
    fairseq_print_steps(&line, true, stdout);
    return 0;
}

/* The number of fairseq's batches in an evaluation: one micro-batch of every rank. */
static int64_t evaluated_batches(struct train *t, enum dataset_split split, int64_t steps)
{
    struct masked *masked = train_masked(t, split);
    int64_t ranks = t->a->layout.dp, most, all;

    if (!masked)
        return steps;
    most = steps * (masked_slots(masked) / ranks);
    all = (masked_counts(masked).batches + ranks - 1) / ranks;
    return all < most ? all : most;
}

int train_log_fairseq_valid(struct train *t, enum dataset_split split, int64_t steps, double loss,
                            double seconds, struct error *err)
{
    struct fairseq_line line = {0};
    bool valid = split == DATASET_VALID, first = t->best_count == 0;

    if (count_steps(t, 0, steps, split, &line, err) < 0 || current_epoch(t, &line.epoch, err) < 0)
        return -1;
    line.sums.steps = (double)evaluated_batches(t, split, steps);
    line.sums.seconds = seconds;
    line.updates = t->iteration;
    if (valid && (t->best_count++ == 0 || loss < t->best))
        t->best = loss;
    /* Like fairseq, which knows a best loss only after the first checkpoint. */
    fairseq_print_evaluation(&line, valid ? "valid" : "test", loss, valid && !first ? t->best : NAN,
                             stdout);
    return 0;
}

/* Report once that a value which fp8 scales depend on was inf or NaN. */
static void warn_overflow(struct train *t, const struct step_state *state)
{
    if (state->overflows == 0 || t->overflowed)
        return;
    t->overflowed = 1;
    if (t->prints)
        log_warning("an input, weight or gradient of an fp8 layer was inf or NaN before iteration "
                    "%" PRId64 ": such steps are skipped, like steps with inf or NaN gradients; if "
                    "that happens often, drop --fp8-format",
                    t->unlogged.iteration);
}

/* The time of the steps that were reported. 'seconds': between the last two reports, on the device;
 * negative: this is the first one. If more work has been enqueued since, only the device knows when
 * they finished. Its clock and the host's drift apart, so no interval is measured with both. */
static double end_interval(struct train *t, double seconds)
{
    double now = clock_now();

    seconds = (seconds >= 0 ? seconds : now - t->finished) - t->excluded;
    t->finished = now;
    t->excluded = 0;
    return seconds;
}

/* Write the line of the steps that were reported. */
static int write_line(struct train *t, struct error *err)
{
    const struct arguments *a = t->a;
    const struct unlogged *last = &t->unlogged;
    struct step_state state;
    struct log_line line;
    double seconds, params_norm = -1;
    int64_t steps = last->iteration - t->logged;

    if (engine_reported(t->engine, &state, &seconds, err) < 0)
        return -1;
    seconds = end_interval(t, seconds) / (double)steps;
    if (a->output.log_params_norm && engine_params_norm(t->engine, &params_norm, err) < 0)
        return -1;
    standstill_look(&t->standstill, &state, &a->rules, last->iteration);
    warn_overflow(t, &state);
    line = (struct log_line){
        .iteration = last->iteration,
        .total = t->total,
        .consumed = last->consumed,
        .batch_size = last->batch,
        .milliseconds = 1000 * seconds,
        .teraflops = a->output.log_throughput ? sample_flops(a) * (double)last->batch /
                                                    (seconds * 1e12 * (double)t->comm->size)
                                              : -1,
        .lr = state.lr,
        .loss = state.taken > 0 ? (state.loss_total - state.pair_total) / state.weight_total : NAN,
        .pair_loss = a->model.network.binary_head ? state.pair_total / state.weight_total : NAN,
        .loss_scale = state.loss_scale,
        .grad_norm = state.grad_norm,
        .params_norm = params_norm,
        .taken = state.taken,
        .skipped = state.skipped,
        .nans = state.nans,
        .eta = seconds * (double)(t->total - last->iteration),
        .memory = a->output.log_memory ? memory_in_use(t) : -1,
    };
    if (t->prints && a->mlm.log_format == LOG_JSON &&
        log_fairseq(t, &state, seconds * (double)steps, err) < 0)
        return -1;
    if (rank_times_due(&t->rank_times, last->iteration) &&
        rank_times_compare(&t->rank_times, &t->parallel, last->iteration,
                           engine_pass_seconds(t->engine), &t->outputs, err) < 0)
        return -1;
    t->logged = last->iteration;
    if (t->prints)
        outputs_steps(&t->outputs, &line);
    return train_check_standstill(t, last->iteration, STANDSTILL_END, err);
}

int train_log_rest(struct train *t, struct error *err)
{
    int rc = t->unlogged.iteration > 0 ? write_line(t, err) : 0;

    t->unlogged.iteration = 0;
    return rc;
}

/* May the line wait until the device is busy with the next step? Not the first one, whose time only
 * the host knows, nor if the line needs more than the report contains; nor with --profile, which
 * waits for every step and must not count the time of writing. */
static int may_wait(const struct train *t)
{
    const struct arguments *a = t->a;

    return t->device->asynchronous && t->logged > t->saving.start.iteration && !a->output.profile &&
           !a->output.log_params_norm && a->mlm.log_format != LOG_JSON &&
           !rank_times_due(&t->rank_times, t->iteration);
}

int train_log_steps(struct train *t, int64_t batch, struct error *err)
{
    engine_report(t->engine);
    t->unlogged = (struct unlogged){t->iteration, t->consumed, batch};
    return may_wait(t) ? 0 : train_log_rest(t, err);
}
