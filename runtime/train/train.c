/* SPDX-License-Identifier: Apache-2.0 */
#include "train.h"
#include "choices.h"
#include "clock.h"
#include "directory.h"
#include "ending.h"
#include "fairseq_log.h"
#include "feeds.h"
#include "file.h"
#include "hf.h"
#include "log.h"
#include "outputs.h"
#include "plan.h"
#include "profile.h"
#include "rank_times.h"
#include "ranks.h"
#include "saving.h"
#include "standstill.h"
#include "start_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct train {
    const struct arguments *a;
    const struct world *world;
    struct device *device;
    struct comm *comm;
    struct parallel parallel;
    struct engine *engine;
    struct feeds feeds;
    struct outputs outputs;
    int prints; /* this rank writes the log */
    struct profile profile;
    struct saving saving;
    int64_t iteration, consumed, consumed_valid;
    int64_t total; /* number of iterations, with the batch size that the run resumes with */
    double began, interval_began;
    int64_t logged;       /* iteration of the last log line */
    int64_t evaluated;    /* iteration of the last evaluation */
    double train_seconds; /* of all steps that were logged */
    int overflowed;       /* an fp8 tensor was Inf or NaN, which was reported */
    double best;          /* lowest validation loss */
    int64_t best_count;   /* evaluations so far */
    struct standstill standstill;
    struct rank_times rank_times;
};

/* --- Set-up ---------------------------------------------------------------------------------- */

static int is_unfused(const struct arguments *a)
{
    return a->attention_backend == ATTENTION_UNFUSED || a->attention_backend == ATTENTION_LOCAL;
}

/* Open this rank's device and connect the ranks. */
static int open_ranks(struct train *t, struct error *err)
{
    const struct arguments *a = t->a;
    struct ranks_config config = {
        .device = (enum device_choice)a->device,
        .type = a->model_config.type,
        .fp8 = a->model_config.fp8.format != FP8_NONE,
        .threads = a->threads,
        .deterministic = a->deterministic,
        .unfused_attention = is_unfused(a),
        .random_order = a->random_order,
        .seed = (uint64_t)a->seed,
        .deadline = 60.0 * a->timeout_minutes,
        .layout = a->layout,
    };
    struct ranks ranks;
    int rc = ranks_open(&ranks, &config, t->world, err);

    t->device = ranks.device;
    t->comm = ranks.comm;
    t->parallel = ranks.parallel;
    return rc < 0 ? -1 : ranks_check_health(t->device, t->world, err);
}

/* Create the engine; in deterministic mode, with the algorithms of the previous run, the same on
 * all ranks. */
static int make_engine(struct train *t, struct error *err)
{
    const struct arguments *a = t->a;
    struct engine_config config = plan_engine(a);
    char *restored = NULL;
    int remember, again = 0, rc = 0;

    if (a->deterministic && a->load &&
        choices_restore(&t->parallel, t->device, a->load, &restored, err) < 0)
        return -1;
    remember = !restored && t->world->local_rank == 0;
    t->engine = engine_create(&config, &t->parallel, t->device, err);
    if (t->engine && a->deterministic)
        rc = choices_agree(&t->parallel, t->device, restored, remember, &again, err);
    free(restored);
    if (rc < 0)
        return -1;
    if (again) {
        engine_destroy(t->engine);
        t->engine = engine_create(&config, &t->parallel, t->device, err);
    }
    return t->engine ? 0 : -1;
}

/* --nccl-ub; memory that cannot be registered works without it. */
static void register_memory(struct train *t)
{
    size_t taken = model_register(engine_model(t->engine));

    if (t->world->rank != 0)
        return;
    if (taken > 0)
        printf(" > %.3f GiB registered with NCCL on this rank\n", (double)taken / (1 << 30));
    else
        log_warning("--nccl-ub has no effect: it needs data- or tensor-parallel ranks on GPUs");
}

/* Print performance advice on the first rank that has any: usually all have, sometimes only one
 * node. */
static int print_advice(const struct train *t, struct error *err)
{
    const char *advice = t->device->advice.text;
    int64_t own = advice[0] ? t->comm->size - t->comm->rank : 0, first = own;

    if (comm_host_max(t->comm, &first, 1, err) < 0)
        return -1;
    if (first == 0 || first != own)
        return 0;
    if (t->comm->rank > 0)
        log_warning("rank %d, %s: %s", t->comm->rank, t->device->model, advice);
    else
        log_warning("%s", advice);
    return 0;
}

static int create_engine(struct train *t, struct error *err)
{
    const struct arguments *a = t->a;
    int rc;

    if (make_engine(t, err) < 0 || print_advice(t, err) < 0)
        return -1;
    if (a->nccl_ub)
        register_memory(t);
    if (a->load_hf &&
        hf_load(a->load_hf, &a->model_config, engine_model(t->engine), t->device, err) < 0)
        return error_prefix(err, "--load-hf");
    rc = saving_open(&t->saving, a, t->world, t->engine, &t->parallel, t->device, !a->load_hf, err);
    if (rc < 0)
        return rc;
    if (a->deterministic && a->save && choices_keep(&t->parallel, t->device, a->save, err) < 0)
        return -1;
    t->iteration = t->logged = t->saving.start.iteration;
    t->consumed = t->saving.start.consumed;
    t->consumed_valid = t->saving.start.consumed_valid;
    t->total =
        a->train_samples > 0 ? t->iteration + steps_left(a, t->consumed) : a->total_iterations;
    return 0;
}

/* These files tell `megatron supervise` how far a start got. */
static int leave_mark(const struct train *t, const char *name, struct error *err)
{
    if (!t->a->save || t->world->rank != 0)
        return 0;
    return directory_prepare(t->a->save, err) < 0 ? -1
                                                  : directory_write(t->a->save, name, "", 0, err);
}

/* Rank 0 checks what the options name before weights are created or loaded, which may take minutes.
 * Returns 0, TRAIN_REFUSED on all ranks if no attempt can succeed, or -1 on rank 0. */
static int check_paths(struct train *t, struct error *err)
{
    int64_t refused = 0;
    int rc = 0;

    if (t->comm->rank == 0) {
        errno = 0;
        if (t->a->save_hf && hf_save_check(t->a->save_hf, &t->a->model_config, err) < 0) {
            err->code = file_error_may_pass(errno) ? ERROR_FAILURE : ERROR_USAGE;
            rc = error_prefix(err, "--save-hf");
        } else {
            rc = saving_check(t->a, err) < 0 || feeds_check(t->a, err) < 0 ? -1 : 0;
        }
        refused = rc < 0 && err->code == ERROR_USAGE;
        if (rc < 0 && !refused)
            return -1;
    }
    if (comm_host_max(t->comm, &refused, 1, err) < 0)
        return -1;
    return refused ? TRAIN_REFUSED : 0;
}

static int set_up(struct train *t, struct error *err)
{
    struct error ignored;
    int rc;

    if (open_ranks(t, err) < 0)
        return -1;
    leave_mark(t, TRAIN_BEGUN, &ignored); /* an unwritable directory is reported below */
    t->prints = t->comm->rank == t->comm->size - 1;
    rc = check_paths(t, err);
    if (rc < 0)
        return rc;
    if (t->comm->rank == 0)
        start_lines_print(clock_now() - t->began, stdout);
    if (plan_print(t->a, t->world, t->device, &t->parallel, t->comm->rank == 0, err) < 0)
        return -1;
    rc = create_engine(t, err);
    if (rc == 0)
        rc = feeds_open(&t->feeds, t->a, &t->parallel, t->saving.seed, &t->saving.start, t->total,
                        err);
    if (rc < 0)
        return rc;
    if (t->prints && outputs_open(&t->outputs, t->a, err) < 0)
        return -1;
    return rank_times_open(&t->rank_times, &t->parallel, t->world, t->iteration,
                           t->a->straggler_interval, &t->outputs, err);
}

/* --- Log ------------------------------------------------------------------------------------- */

/* A run that no longer makes progress must not occupy its GPUs. */
static int check_standstill(const struct train *t, int64_t limit, struct error *err)
{
    int64_t steps = standstill_steps(&t->standstill, t->iteration);

    if (steps < limit)
        return 0;
    return error_set(err,
                     "no optimizer step since iteration %" PRId64
                     ": the gradients of the last %" PRId64
                     " steps were inf or NaN; resume from an earlier checkpoint (--ckpt-step) with "
                     "a lower --lr, and check the data after that iteration",
                     t->iteration - steps, steps);
}

/* Bytes that the arenas of this rank take; they are allocated once, before the first step. */
static double memory_in_use(const struct train *t)
{
    struct rank_plan plan;
    struct error ignored;

    if (plan_rank(t->a, &t->parallel.at, &plan, &ignored) < 0)
        return -1;
    return (double)(plan.memory.weights + plan.memory.gradients + plan.memory.optimizer +
                    plan.memory.activations);
}

/* What the steps from 'first' on contained. */
static int count_steps(struct train *t, int64_t first, int64_t steps, enum dataset_split split,
                       struct fairseq_line *line, struct error *err)
{
    struct dataset *data = t->feeds.splits[split];
    struct masked *masked = data ? dataset_masked(data) : NULL;
    struct masked_step step;

    line->epoch = 1;
    line->update = (double)t->iteration / (double)t->total;
    line->steps = steps;
    if (!masked) {
        line->sentences = (double)(steps * t->a->global_batch_size);
        line->tokens = line->sentences * (double)t->a->seq_length;
        return 0;
    }
    for (int64_t i = first; i < first + steps; i++) {
        if (masked_step_of(masked, i, &step, err) < 0)
            return -1;
        line->tokens += (double)step.tokens;
        line->sentences += (double)step.sentences;
        line->epoch = step.epoch;
        line->update =
            (double)(step.epoch - 1) + (double)step.in_epoch / (double)masked_steps(masked);
    }
    return 0;
}

/* The number of the step that comes after 'consumed' samples. */
static int64_t data_step(const struct train *t, int64_t consumed)
{
    return consumed / t->a->global_batch_size;
}

static int log_fairseq(struct train *t, const struct log_line *log, const struct step_state *state,
                       double seconds, struct error *err)
{
    struct fairseq_line line = {0};
    int64_t steps = t->iteration - t->logged;
    char text[1024];

    if (count_steps(t, data_step(t, t->consumed) - steps, steps, DATASET_TRAIN, &line, err) < 0)
        return -1;
    t->train_seconds += seconds;
    line.loss = log->loss;
    line.seconds = seconds;
    line.updates = state->adam_step;
    line.lr = log->lr;
    line.norm = state->taken > 0 ? state->norm_total / (double)state->taken : log->grad_norm;
    line.clipped = t->a->rules.clip <= 0 ? -1
                   : state->taken > 0    ? (double)state->clipped / (double)state->taken
                                         : 1;
    line.scale = t->a->fp16 ? state->loss_scale : 0;
    line.train_wall = t->train_seconds;
    line.wall = clock_now() - t->began;
    fairseq_line_format(&line, (double)time(NULL), text, sizeof(text));
    outputs_line(&t->outputs, text);
    return 0;
}

static int log_fairseq_valid(struct train *t, enum dataset_split split, int64_t steps, double loss,
                             double seconds, struct error *err)
{
    struct fairseq_line line = {0};
    struct fairseq_line now = {0};
    char text[1024];

    if (count_steps(t, 0, steps, split, &line, err) < 0 ||
        count_steps(t, data_step(t, t->consumed) - (t->iteration > 0), t->iteration > 0,
                    DATASET_TRAIN, &now, err) < 0)
        return -1;
    line.epoch = now.epoch;
    line.loss = loss;
    line.seconds = seconds;
    line.updates = t->iteration;
    if (split == DATASET_VALID && (t->best_count++ == 0 || loss < t->best))
        t->best = loss;
    fairseq_line_valid(&line, split == DATASET_VALID ? "valid" : "test",
                       split == DATASET_VALID ? t->best : NAN, (double)time(NULL), text,
                       sizeof(text));
    outputs_line(&t->outputs, text);
    return 0;
}

/* A value that fp8 scales depend on was Inf or NaN: said once. */
static void warn_overflow(struct train *t, const struct step_state *state)
{
    if (state->overflows == 0 || t->overflowed)
        return;
    t->overflowed = 1;
    if (t->prints)
        log_warning("an input, weight or gradient of an fp8 layer was inf or NaN before iteration "
                    "%" PRId64 ": such steps are skipped, like steps with inf or NaN gradients",
                    t->iteration);
}

static int log_steps(struct train *t, int64_t batch, struct error *err)
{
    const struct arguments *a = t->a;
    struct step_state state;
    struct log_line line;
    double seconds, params_norm = -1;
    int64_t steps = t->iteration - t->logged;

    if (engine_state(t->engine, &state, 1, err) < 0 ||
        (a->log_params_norm && engine_params_norm(t->engine, &params_norm, err) < 0))
        return -1;
    standstill_look(&t->standstill, &state, &a->rules, t->iteration);
    warn_overflow(t, &state);
    seconds = (clock_now() - t->interval_began) / (double)steps;
    line = (struct log_line){
        .iteration = t->iteration,
        .total = t->total,
        .consumed = t->consumed,
        .batch_size = batch,
        .milliseconds = 1000 * seconds,
        .teraflops = a->log_throughput ? sample_flops(a) * (double)batch /
                                             (seconds * 1e12 * (double)t->comm->size)
                                       : -1,
        .lr = state.lr,
        .loss = state.taken > 0 ? state.loss_total / state.weight_total : NAN,
        .loss_scale = state.loss_scale,
        .grad_norm = state.grad_norm,
        .params_norm = params_norm,
        .taken = state.taken,
        .skipped = state.skipped,
        .nans = state.nans,
        .eta = seconds * (double)(t->total - t->iteration),
        .memory = a->log_memory ? memory_in_use(t) : -1,
    };
    if (t->prints && a->mlm.log_format == LOG_JSON &&
        log_fairseq(t, &line, &state, seconds * (double)steps, err) < 0)
        return -1;
    if (rank_times_due(&t->rank_times, t->iteration) &&
        rank_times_compare(&t->rank_times, &t->parallel, t->iteration,
                           engine_pass_seconds(t->engine), &t->outputs, err) < 0)
        return -1;
    t->logged = t->iteration;
    t->interval_began = clock_now();
    if (t->prints)
        outputs_steps(&t->outputs, &line);
    return check_standstill(t, STANDSTILL_END, err);
}

/* --- The loop -------------------------------------------------------------------------------- */

static int evaluate(struct train *t, enum dataset_split split, const char *what, struct error *err)
{
    const struct arguments *a = t->a;
    int64_t micros = a->global_batch_size / (a->micro_batch_size * a->layout.dp);
    int64_t steps = feeds_eval_steps(&t->feeds, a, split);
    double total = 0, loss, began = clock_now();

    if (a->full_validation && split == DATASET_VALID && !a->masked) {
        if (steps == 0)
            return error_set_code(
                err, ERROR_USAGE,
                "--full-validation: the validation data have fewer samples (%" PRId64
                ") than a global batch",
                dataset_samples(t->feeds.splits[split]));
        if (feeds_restart(&t->feeds, split, a, &t->parallel, err) < 0)
            return -1;
    }
    for (int64_t i = 0; i < steps; i++) {
        if (engine_evaluate(t->engine, t->feeds.loaders[split], micros, &loss, err) < 0)
            return error_prefix(err, "evaluation");
        total += loss;
    }
    /* fairseq's losses are shares of the whole split already. */
    if (!dataset_masked(t->feeds.splits[split]))
        total /= (double)steps;
    if (t->prints && a->mlm.log_format == LOG_JSON)
        return log_fairseq_valid(t, split, steps, total, clock_now() - began, err);
    if (t->prints)
        outputs_evaluation(&t->outputs, t->iteration, t->consumed, split == DATASET_TEST, what,
                           total);
    return 0;
}

static struct progress progress_of(const struct train *t)
{
    return (struct progress){t->iteration, t->consumed, t->consumed_valid};
}

/* Does this rank write a trace of the step? Only of the first profiled one. */
static int is_traced(const struct train *t, const char **directory)
{
    const struct arguments *a = t->a;
    int listed = a->profile_ranks.count == 0 && t->comm->rank == 0;

    for (size_t i = 0; i < a->profile_ranks.count; i++)
        listed |= atoi(a->profile_ranks.items[i]) == t->comm->rank;
    *directory = a->profile_dir ? a->profile_dir : a->tensorboard_dir;
    return listed && *directory && t->profile.steps == 0;
}

/* Profile a single step and wait for it, so that other steps, evaluations and checkpoints do not
 * count. */
static int profile_step(struct train *t, int64_t micros, struct error *err)
{
    struct device *device = t->device;
    struct error trouble;
    const char *directory;
    double began;
    int rc;

    if (is_traced(t, &directory))
        t->profile.trace = trace_create();
    if (device->profile_start(device, profile_add, &t->profile, err) < 0)
        return -1;
    began = clock_now();
    rc = engine_step(t->engine, t->feeds.loaders[DATASET_TRAIN], t->iteration, micros, err);
    if (rc == 0)
        rc = device->profile_stop(device, err);
    t->profile.elapsed += clock_now() - began;
    t->profile.steps++;
    if (rc == 0 && t->profile.trace &&
        trace_write(t->profile.trace, directory, t->iteration, t->comm->rank, &trouble) < 0)
        log_warning("%s", trouble.text);
    trace_destroy(t->profile.trace);
    t->profile.trace = NULL;
    return rc;
}

/* Is the step to be profiled? The first one loads kernels and allocates memory: it counts only if
 * it is asked for or is the only one. */
static int is_profiled(const struct train *t)
{
    const struct arguments *a = t->a;
    int64_t first = t->saving.start.iteration;

    if (!a->profile || (a->profile_end >= 0 && t->iteration >= a->profile_end))
        return 0;
    if (a->profile_start >= 0)
        return t->iteration >= a->profile_start;
    return t->iteration > first || t->total - first == 1;
}

static int give_step(struct train *t, int64_t micros, struct error *err)
{
    return is_profiled(t)
               ? profile_step(t, micros, err)
               : engine_step(t->engine, t->feeds.loaders[DATASET_TRAIN], t->iteration, micros, err);
}

/* Losses of steps are weighed by the tokens that they predict. */
static int weigh_step(struct train *t, struct error *err)
{
    struct dataset *data = t->feeds.splits[DATASET_TRAIN];
    struct masked *masked = data ? dataset_masked(data) : NULL;
    struct masked_step step;

    if (!masked || !t->a->mlm.per_token)
        return 0;
    if (masked_step_of(masked, data_step(t, t->consumed), &step, err) < 0)
        return -1;
    engine_weigh(t->engine, (double)step.selected);
    return 0;
}

static int take_step(struct train *t, struct error *err)
{
    const struct arguments *a = t->a;
    int64_t batch = batch_size_at(a, t->consumed);
    int64_t micros = batch / (a->micro_batch_size * a->layout.dp);

    comm_set_step(t->comm, t->iteration);
    if (weigh_step(t, err) < 0)
        return -1;
    if (give_step(t, micros, err) < 0)
        return -1;
    t->iteration++;
    t->consumed += batch;
    if (t->iteration == t->saving.start.iteration + 1 && t->prints) {
        struct step_state state;

        if (engine_state(t->engine, &state, 0, err) < 0)
            return -1;
        printf("time to first step: %.2f s\n", clock_now() - t->began);
    }
    if (t->iteration % a->log_interval == 0 || t->iteration == t->total)
        return log_steps(t, batch, err);
    return 0;
}

/* After training: the loss on validation and test data. */
static int evaluate_end(struct train *t, struct error *err)
{
    char what[64];

    snprintf(what, sizeof(what), "iteration %" PRId64 " on validation set", t->iteration);
    if (t->a->eval_iters > 0 && t->feeds.loaders[DATASET_VALID] && t->evaluated != t->iteration &&
        evaluate(t, DATASET_VALID, what, err) < 0)
        return -1;
    snprintf(what, sizeof(what), "iteration %" PRId64 " on test set", t->iteration);
    return t->a->eval_iters > 0 && t->feeds.loaders[DATASET_TEST]
               ? evaluate(t, DATASET_TEST, what, err)
               : 0;
}

/* Before a save: weights that no longer change must not displace good checkpoints. */
static int look_before_save(struct train *t, struct error *err)
{
    struct step_state state;

    if (engine_state(t->engine, &state, 0, err) < 0)
        return -1;
    standstill_look(&t->standstill, &state, &t->a->rules, t->iteration);
    t->saving.withheld = standstill_steps(&t->standstill, t->iteration) >= STANDSTILL_UNSAVED;
    return 0;
}

/* Evaluate between two steps; this counts neither as a step nor towards the time of one. */
static int evaluate_between(struct train *t, struct error *err)
{
    struct step_state state;
    double before;
    char what[40];

    if (engine_state(t->engine, &state, 0, err) < 0) /* end the interval of the steps so far */
        return -1;
    before = clock_now();
    snprintf(what, sizeof(what), "iteration %" PRId64, t->iteration);
    if (evaluate(t, DATASET_VALID, what, err) < 0)
        return -1;
    if (!t->a->full_validation)
        t->consumed_valid +=
            feeds_eval_steps(&t->feeds, t->a, DATASET_VALID) * t->a->global_batch_size;
    t->evaluated = t->iteration;
    t->interval_began += clock_now() - before;
    return 0;
}

/* Is validation due after this step? fairseq's recipe also validates after each epoch. */
static int evaluates_now(const struct train *t)
{
    const struct arguments *a = t->a;
    struct dataset *data = t->feeds.splits[DATASET_TRAIN];
    struct masked *masked = data ? dataset_masked(data) : NULL;

    if (!t->feeds.loaders[DATASET_VALID] || a->eval_iters == 0)
        return 0;
    return t->iteration % a->eval_interval == 0 ||
           (masked && a->mlm.recipe == RECIPE_FAIRSEQ &&
            data_step(t, t->consumed) % masked_steps(masked) == 0);
}

static int loop(struct train *t, struct error *err)
{
    const struct arguments *a = t->a;
    struct progress progress;
    struct step_state state;
    int end = 0;

    if (engine_state(t->engine, &state, 0, err) < 0)
        return -1;
    t->standstill = (struct standstill){state.adam_step, t->iteration};
    t->interval_began = clock_now();
    if (t->iteration >= t->total && t->prints)
        printf("training is already finished: the checkpoint in %s is of iteration %" PRId64
               ", and the run has %" PRId64
               "; raise --train-iters or --train-samples to continue\n",
               a->load, t->iteration, t->total);
    while (t->iteration < t->total && !end) {
        if (take_step(t, err) < 0)
            return -1;
        if (evaluates_now(t) && evaluate_between(t, err) < 0)
            return -1;
        progress = progress_of(t);
        if (saving_due(&t->saving, &progress) && look_before_save(t, err) < 0)
            return -1;
        if (saving_step(&t->saving, &progress, &end, err) < 0)
            return -1;
    }
    progress = progress_of(t);
    if (look_before_save(t, err) < 0 || saving_end(&t->saving, &progress, err) < 0)
        return -1;
    if (!end && check_standstill(t, STANDSTILL_UNSAVED, err) < 0)
        return -1;
    if (end && t->prints)
        printf("exiting program at iteration %" PRId64 "\n", t->iteration);
    if (!end && evaluate_end(t, err) < 0)
        return -1;
    if (t->iteration < t->total)
        return TRAIN_ENDED_EARLY;
    if (a->save_hf && hf_save(a->save_hf, &a->model_config, engine_model(t->engine), &t->parallel,
                              t->device, err) < 0)
        return error_prefix(err, "--save-hf");
    return 0;
}

/* --skip-train: the loss of the loaded weights on validation and test data. */
static int evaluate_only(struct train *t, struct error *err)
{
    if (!t->feeds.loaders[DATASET_VALID] && !t->feeds.loaders[DATASET_TEST])
        return error_set(err,
                         "no data to evaluate on: --split assigns none to validation and test");
    if (t->feeds.loaders[DATASET_VALID] &&
        evaluate(t, DATASET_VALID, "the start for validation data", err) < 0)
        return -1;
    return t->feeds.loaders[DATASET_TEST]
               ? evaluate(t, DATASET_TEST, "the start for test data", err)
               : 0;
}

static void report_profile(const struct train *t)
{
    if (!t->a->profile || !t->prints)
        return;
    if (t->profile.steps > 0)
        profile_print(&t->profile, stdout);
    else
        log_warning("--profile has nothing to report: only the first step was run, which includes "
                    "one-time initialization; train for more iterations");
}

static void tear_down(struct train *t, int rc, const struct error *err)
{
    rank_times_close(&t->rank_times);
    outputs_close(&t->outputs);
    feeds_close(&t->feeds);
    saving_close(&t->saving);
    engine_destroy(t->engine);
    parallel_destroy(&t->parallel);
    ending_close(t->comm, t->device, rc, err);
}

int train_run(const struct arguments *arguments, const struct world *world, struct error *err)
{
    struct train t = {.a = arguments, .world = world, .began = clock_now()};
    struct error trouble;
    int rc;

    rc = set_up(&t, err);
    if (rc == 0)
        rc = (arguments->skip_train ? evaluate_only : loop)(&t, err);
    if (rc >= 0)
        report_profile(&t);
    /* Without this file the run is merely started once more, and finds that it is finished. */
    if (rc == 0 && leave_mark(&t, TRAIN_DONE, &trouble) < 0)
        log_warning("%s", trouble.text);
    if (rc == -1 && t.device && t.device->ran_out)
        plan_advise(arguments, err);
    if (rc == -1 && t.comm)
        ending_abort(t.comm, err);
    tear_down(&t, rc, err);
    return rc;
}
