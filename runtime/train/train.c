#include "train.h"
#include "directory.h"
#include "append_file.h"
#include "choices.h"
#include "clock.h"
#include "command.h"
#include "hf.h"
#include "log.h"
#include "plan.h"
#include "profile.h"
#include "ranks.h"
#include "saving.h"
#include "standstill.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOADER_BUFFERS = 4 };

/* What libraries have to close a run whose code is settled. */
enum { CLOSE_SECONDS = 20 };

/* A loader with its buffers. */
struct feed {
    struct batch_loader *loader;
    void *buffers[LOADER_BUFFERS];
};

struct train {
    const struct arguments *a;
    const struct world *world;
    struct device *device;
    struct comm *comm;
    struct parallel parallel;
    struct engine *engine;
    struct dataset *splits[DATASET_SPLITS];
    struct feed train_feed, valid_feed, test_feed;
    struct event_file *events;
    struct append_file *metrics;
    int prints; /* this rank writes the log */
    int warned; /* events or metrics could not be written */
    struct profile profile;
    struct saving saving;
    int64_t iteration, consumed, consumed_valid;
    int64_t total; /* iterations, with the batch that the run goes on with */
    double began, interval_began;
    int64_t logged;    /* iteration of the last log line */
    int64_t evaluated; /* and of the last evaluation */
    struct standstill standstill;
};

/* --- Set-up ---------------------------------------------------------------------------------- */

/* Say at the start what would cost the night: every rank for its own device. */
static int check_health(const struct train *t, struct error *err)
{
    char text[2048], *rest = text, *line;

    if (device_health(t->device, text, sizeof(text), err) < 0)
        return -1;
    while ((line = strsep(&rest, "\n")) != NULL)
        if (line[0])
            fprintf(stderr, "megatron: warning: rank %lld, %s: %s\n", (long long)t->world->rank,
                    t->device->model, line);
    return 0;
}

/* The rank's device and the other ranks. */
static int open_ranks(struct train *t, struct error *err)
{
    const struct arguments *a = t->a;
    struct ranks_config config = {
        .device = (enum device_choice)a->device,
        .type = a->model_config.type,
        .threads = a->threads,
        .deterministic = a->deterministic,
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
    return rc < 0 ? -1 : check_health(t, err);
}

/* The engine; in deterministic mode one that computes as the run before and as all ranks do. */
static int make_engine(struct train *t, struct error *err)
{
    const struct arguments *a = t->a;
    struct engine_config config = plan_engine(a);
    int again;

    if (a->deterministic && a->load && choices_restore(&t->parallel, t->device, a->load, err) < 0)
        return -1;
    t->engine = engine_create(&config, &t->parallel, t->device, err);
    if (!t->engine || !a->deterministic)
        return t->engine ? 0 : -1;
    if (choices_agree(&t->parallel, t->device, &again, err) < 0)
        return -1;
    if (again) {
        engine_destroy(t->engine);
        t->engine = engine_create(&config, &t->parallel, t->device, err);
    }
    return t->engine ? 0 : -1;
}

/* --nccl-ub; what cannot be registered works as it does without. */
static void register_memory(struct train *t)
{
    size_t taken = model_register(engine_model(t->engine));

    if (t->world->rank != 0)
        return;
    if (taken > 0)
        printf(" > %.3f GiB registered with NCCL on this rank\n", (double)taken / (1 << 30));
    else
        fprintf(stderr, "megatron: warning: --nccl-ub: nothing to register here: it takes data or "
                        "tensor parallel ranks on GPUs\n");
}

static int create_engine(struct train *t, struct error *err)
{
    const struct arguments *a = t->a;
    int rc;

    if (make_engine(t, err) < 0)
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

/* A prefix that is not there is said before weights are made or read, which may take minutes. */
static int check_files(const struct train *t, struct error *err)
{
    struct dataset_config config;

    plan_dataset(t->a, &config);
    return dataset_check(&config, err);
}

static int open_data(struct train *t, struct error *err)
{
    struct dataset_config config;
    int rc;

    plan_dataset(t->a, &config);
    config.seed = (uint32_t)t->saving.seed;
    /* One rank builds missing indices; the others then find them. */
    if (t->comm->rank == 0 && dataset_create(&config, t->splits, err) < 0)
        return -1;
    rc = comm_host_gather(t->comm, NULL, NULL, 0, err);
    if (rc == 0 && t->comm->rank != 0)
        rc = dataset_create(&config, t->splits, err);
    for (int i = DATASET_VALID; i <= DATASET_TEST && rc == 0 && t->comm->rank == 0; i++)
        if (config.samples[i] != 0 && !t->splits[i] && config.data_path.count > 0)
            printf(" > no %s data: --split leaves none for it\n",
                   i == DATASET_VALID ? "validation" : "test");
    return rc;
}

static int feed_open(struct train *t, struct feed *feed, const struct dataset *data,
                     int64_t consumed, struct error *err)
{
    const struct arguments *a = t->a;
    size_t bytes = batch_size(a->micro_batch_size, a->seq_length);
    struct batch_loader_config config = {
        .dataset = data,
        .consumed = consumed,
        .micro_batch = a->micro_batch_size,
        .rank = (int)t->parallel.at.dp,
        .ranks = (int)t->parallel.layout.dp,
        .buffers = feed->buffers,
        .buffer_count = LOADER_BUFFERS,
        .threads = 1,
        .deadline = 60.0 * a->timeout_minutes,
    };

    if (!data)
        return 0;
    for (int i = 0; i < LOADER_BUFFERS; i++) {
        feed->buffers[i] = aligned_alloc(4096, bytes);
        if (!feed->buffers[i])
            return error_set(err, "out of memory");
    }
    feed->loader = batch_loader_create(&config, err);
    return feed->loader ? 0 : -1;
}

/* A run of --train-iters that goes on with another batch may come to the end of its data before its
 * own. */
static int check_data(const struct train *t, struct error *err)
{
    const struct arguments *a = t->a;
    int64_t left = (t->total - t->iteration) * a->global_batch_size;
    int64_t samples;

    if (!t->splits[DATASET_TRAIN] || a->rampup.count > 0 || a->skip_train)
        return 0;
    samples = dataset_samples(t->splits[DATASET_TRAIN]);
    if (left <= 0 || left <= samples - t->consumed)
        return 0;
    /* A blend and made-up data have what the run asks for and no more, whatever its length. */
    error_set(err,
              "the data is laid out for %" PRId64 " samples, and this run, which has used "
              "%" PRId64 ", would need %" PRId64 " more; go on with the --global-batch-size "
              "it began with%s",
              samples, t->consumed, left,
              samples > a->total_samples ? ", or give fewer --train-iters" : "");
    return TRAIN_REFUSED;
}

static void feed_close(struct feed *feed)
{
    batch_loader_destroy(feed->loader);
    for (int i = 0; i < LOADER_BUFFERS; i++)
        free(feed->buffers[i]);
    memset(feed, 0, sizeof(*feed));
}

static int open_outputs(struct train *t, struct error *err)
{
    if (!t->prints)
        return 0;
    if (t->a->tensorboard_dir) {
        t->events = event_file_create(t->a->tensorboard_dir, err);
        if (!t->events)
            return -1;
    }
    if (t->a->metrics_file) {
        t->metrics = append_file_open(t->a->metrics_file, 0, err);
        if (!t->metrics)
            return error_prefix(err, "--metrics-file");
    }
    return 0;
}

/* --- Log ------------------------------------------------------------------------------------- */

static void write_events(struct train *t, const struct log_line *line)
{
    struct event_file *e = t->events;
    int64_t step = line->iteration;

    event_file_scalar(e, "learning-rate", step, line->lr);
    event_file_scalar(e, "batch-size", step, (double)line->batch_size);
    if (line->taken > 0) {
        event_file_scalar(e, "lm loss", step, line->loss);
        event_file_scalar(e, "lm loss vs samples", line->consumed, line->loss);
        event_file_scalar(e, "grad-norm", step, line->grad_norm);
    }
    event_file_scalar(e, "loss-scale", step, line->loss_scale);
    event_file_scalar(e, "iteration-time", step, line->milliseconds / 1000);
    if (line->teraflops >= 0)
        event_file_scalar(e, "throughput", step, line->teraflops);
}

/* A full disk costs lines of events and metrics, not the run: it is said once, and what is held is
 * tried again with the next line. */
static void flush_outputs(struct train *t)
{
    struct error trouble;
    int rc = t->events ? event_file_flush(t->events, &trouble) : 0;

    if (t->metrics && append_file_flush(t->metrics, &trouble) < 0)
        rc = -1;
    if (rc < 0 && !t->warned)
        fprintf(stderr, "megatron: warning: %s; training goes on\n", trouble.text);
    t->warned = rc < 0;
}

/* Nothing that a run without a step to take would still do is worth its GPUs. */
static int check_standstill(const struct train *t, int64_t limit, struct error *err)
{
    int64_t steps = standstill_steps(&t->standstill, t->iteration);

    if (steps < limit)
        return 0;
    return error_set(err,
                     "no step was taken since iteration %" PRId64 ": the gradients of the last "
                     "%" PRId64 " were not finite; go on from an earlier checkpoint (--ckpt-step) "
                     "with a lower --lr, and look at the data behind it",
                     t->iteration - steps, steps);
}

static int log_steps(struct train *t, int64_t batch, struct error *err)
{
    const struct arguments *a = t->a;
    struct step_state state;
    struct log_line line;
    char text[1024];
    double seconds, params_norm = -1;
    int64_t steps = t->iteration - t->logged;

    if (engine_state(t->engine, &state, 1, err) < 0 ||
        (a->log_params_norm && engine_params_norm(t->engine, &params_norm, err) < 0))
        return -1;
    standstill_look(&t->standstill, &state, &a->rules, t->iteration);
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
        .loss = state.taken > 0 ? state.loss_total / (double)state.taken : NAN,
        .loss_scale = state.loss_scale,
        .grad_norm = state.grad_norm,
        .params_norm = params_norm,
        .taken = state.taken,
        .skipped = state.skipped,
        .nans = state.nans,
        .eta = seconds * (double)(t->total - t->iteration),
    };
    t->logged = t->iteration;
    t->interval_began = clock_now();
    if (!t->prints)
        return check_standstill(t, STANDSTILL_END, err);
    log_line_format(&line, text, sizeof(text));
    printf("%s\n", text);
    fflush(stdout);
    if (t->events)
        write_events(t, &line);
    if (t->metrics) {
        log_line_json(&line, text, sizeof(text) - 1);
        strcat(text, "\n");
        append_file_add(t->metrics, text, strlen(text));
    }
    flush_outputs(t);
    return check_standstill(t, STANDSTILL_END, err);
}

/* --- The loop -------------------------------------------------------------------------------- */

static int evaluate(struct train *t, struct feed *feed, const char *what, struct error *err)
{
    const struct arguments *a = t->a;
    int64_t micros = a->global_batch_size / (a->micro_batch_size * a->layout.dp);
    double total = 0, loss, mean;
    char text[160];
    int width;

    for (int64_t i = 0; i < a->eval_iters; i++) {
        if (engine_evaluate(t->engine, feed->loader, micros, &loss, err) < 0)
            return error_prefix(err, "evaluation");
        total += loss;
    }
    if (!t->prints)
        return 0;
    mean = total / (double)a->eval_iters;
    if (isnan(mean))
        mean = NAN; /* without a sign */
    width = snprintf(text, sizeof(text),
                     " validation loss at %s | lm loss value: %.6E | lm loss PPL: %.6E | ", what,
                     mean, exp(mean > 20 ? 20 : mean));
    for (int i = 0; i < width; i++)
        putchar('-');
    printf("\n%s\n", text);
    for (int i = 0; i < width; i++)
        putchar('-');
    printf("\n");
    fflush(stdout);
    if (t->events)
        event_file_scalar(t->events, "lm loss validation", t->iteration, mean);
    return 0;
}

static struct progress progress_of(const struct train *t)
{
    return (struct progress){t->iteration, t->consumed, t->consumed_valid};
}

/* A step by itself, which is waited for: what other steps, evaluations and checkpoints take does
 * not count. */
static int profile_step(struct train *t, int64_t micros, struct error *err)
{
    struct device *device = t->device;
    double began;

    if (device->profile_start(device, profile_add, &t->profile, err) < 0)
        return -1;
    began = clock_now();
    if (engine_step(t->engine, t->train_feed.loader, t->iteration, micros, err) < 0 ||
        device->profile_stop(device, err) < 0)
        return -1;
    t->profile.elapsed += clock_now() - began;
    t->profile.steps++;
    return 0;
}

static int give_step(struct train *t, int64_t micros, struct error *err)
{
    int64_t first = t->saving.start.iteration;
    /* The first step loads kernels and allocates: it counts only where there is no other. */
    int usual = t->iteration > first || t->total - first == 1;

    return t->a->profile && usual
               ? profile_step(t, micros, err)
               : engine_step(t->engine, t->train_feed.loader, t->iteration, micros, err);
}

static int take_step(struct train *t, struct error *err)
{
    const struct arguments *a = t->a;
    int64_t batch = batch_size_at(a, t->consumed);
    int64_t micros = batch / (a->micro_batch_size * a->layout.dp);

    comm_set_step(t->comm, t->iteration);
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

/* What came of it: the loss on the data held back. */
static int evaluate_end(struct train *t, struct error *err)
{
    char what[64];

    snprintf(what, sizeof(what), "iteration %" PRId64 " on validation set", t->iteration);
    if (t->a->eval_iters > 0 && t->valid_feed.loader && t->evaluated != t->iteration &&
        evaluate(t, &t->valid_feed, what, err) < 0)
        return -1;
    snprintf(what, sizeof(what), "iteration %" PRId64 " on test set", t->iteration);
    return t->a->eval_iters > 0 && t->test_feed.loader ? evaluate(t, &t->test_feed, what, err) : 0;
}

/* Before a save: one of weights that take no step any more would only drive good ones out. */
static int look_before_save(struct train *t, struct error *err)
{
    struct step_state state;

    if (engine_state(t->engine, &state, 0, err) < 0)
        return -1;
    standstill_look(&t->standstill, &state, &t->a->rules, t->iteration);
    t->saving.withheld = standstill_steps(&t->standstill, t->iteration) >= STANDSTILL_UNSAVED;
    return 0;
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
    while (t->iteration < t->total && !end) {
        if (take_step(t, err) < 0)
            return -1;
        if (t->valid_feed.loader && a->eval_iters > 0 && t->iteration % a->eval_interval == 0) {
            char what[40];

            snprintf(what, sizeof(what), "iteration %" PRId64, t->iteration);
            if (evaluate(t, &t->valid_feed, what, err) < 0)
                return -1;
            t->consumed_valid += a->eval_iters * a->global_batch_size;
            t->evaluated = t->iteration;
            t->interval_began = clock_now();
        }
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

/* --skip-train: the loss of what was loaded, on the data held back. */
static int evaluate_only(struct train *t, struct error *err)
{
    if (!t->valid_feed.loader && !t->test_feed.loader)
        return error_set(err, "there is no data to evaluate on: --split leaves none for validation "
                              "and test");
    if (t->valid_feed.loader &&
        evaluate(t, &t->valid_feed, "the start for validation data", err) < 0)
        return -1;
    return t->test_feed.loader ? evaluate(t, &t->test_feed, "the start for test data", err) : 0;
}

static void report_profile(const struct train *t)
{
    if (!t->a->profile || !t->prints)
        return;
    if (t->profile.steps > 0)
        profile_print(&t->profile, stdout);
    else
        fprintf(stderr,
                "megatron: warning: --profile: no step but the first was taken, and that one "
                "loads and allocates; let the run take more\n");
}

/* By these files `megatron supervise` knows a start that did not come so far. */
static int leave_mark(const struct train *t, const char *name, struct error *err)
{
    if (!t->a->save || t->world->rank != 0)
        return 0;
    return directory_prepare(t->a->save, err) < 0 ? -1
                                                  : directory_write(t->a->save, name, "", 0, err);
}

static int set_up(struct train *t, struct error *err)
{
    struct error ignored;
    int rc;

    if (open_ranks(t, err) < 0)
        return -1;
    leave_mark(t, TRAIN_BEGUN, &ignored); /* a place that cannot be written to is said below */
    t->prints = t->comm->rank == t->comm->size - 1;
    if (t->a->save_hf && t->comm->rank == 0 &&
        hf_save_check(t->a->save_hf, &t->a->model_config, err) < 0)
        return error_prefix(err, "--save-hf");
    if (t->comm->rank == 0 && check_files(t, err) < 0)
        return -1;
    if (plan_print(t->a, t->world, t->device, &t->parallel, t->comm->rank == 0, err) < 0)
        return -1;
    rc = create_engine(t, err);
    if (rc == 0)
        rc = open_data(t, err);
    if (rc == 0)
        rc = check_data(t, err);
    if (rc < 0)
        return rc;
    if (feed_open(t, &t->train_feed, t->splits[DATASET_TRAIN], t->consumed, err) < 0 ||
        feed_open(t, &t->valid_feed, t->splits[DATASET_VALID], t->consumed_valid, err) < 0 ||
        feed_open(t, &t->test_feed, t->splits[DATASET_TEST], 0, err) < 0)
        return -1;
    if (!t->train_feed.loader && !t->a->skip_train)
        return error_set(err, "there is no training data: --split leaves none for it");
    return open_outputs(t, err);
}

static void end_refused(int number)
{
    (void)number;
    _exit(EXIT_USAGE);
}

static void end_early(int number)
{
    (void)number;
    _exit(TRAIN_ENDED_EARLY);
}

/* A code that all ranks have come to must be that of all, and what they refuse must be said.
 * Launchers end the others by SIGTERM with the first that ends, and srun hands on the highest code,
 * which would be that of the signal. So none ends before rank 0 has spoken and all answer the
 * signal with their code; so does one whose libraries do not let go. */
static void end_together(const struct train *t, int rc, const struct error *err)
{
    struct sigaction action = {.sa_handler = rc == TRAIN_REFUSED ? end_refused : end_early};
    struct error ignored;

    if (rc == TRAIN_REFUSED && t->comm->rank == 0)
        fprintf(stderr, "megatron: %s\n", err->text);
    fflush(stdout);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    comm_host_gather(t->comm, NULL, NULL, 0, &ignored);
    alarm(CLOSE_SECONDS);
}

static void tear_down(struct train *t, int rc, const struct error *err)
{
    struct error trouble;

    if (event_file_close(t->events, &trouble) < 0)
        fprintf(stderr, "megatron: warning: %s\n", trouble.text);
    if (append_file_close(t->metrics, &trouble) < 0)
        fprintf(stderr, "megatron: warning: %s\n", trouble.text);
    feed_close(&t->train_feed);
    feed_close(&t->valid_feed);
    feed_close(&t->test_feed);
    for (int i = 0; i < DATASET_SPLITS; i++)
        dataset_destroy(t->splits[i]);
    saving_close(&t->saving);
    engine_destroy(t->engine);
    parallel_destroy(&t->parallel);
    if (rc == TRAIN_REFUSED || rc == TRAIN_ENDED_EARLY)
        end_together(t, rc, err);
    comm_close(t->comm);
    device_close(t->device);
    alarm(0);
}

/* Where this comes back, this rank says whose words these are, as the others do. */
static void abort_ranks(struct train *t, struct error *err)
{
    comm_abort(t->comm, err->text);
    if (t->comm->size > 1 && strncmp(err->text, "rank ", 5) != 0)
        error_prefix(err, "rank %d", t->comm->rank);
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
    /* Without it the run is only started once more, to find that nothing is left to do. */
    if (rc == 0 && leave_mark(&t, TRAIN_DONE, &trouble) < 0)
        fprintf(stderr, "megatron: warning: %s\n", trouble.text);
    if (rc == -1 && t.device && t.device->ran_out)
        plan_advise(arguments, err);
    if (rc == -1 && t.comm)
        abort_ranks(&t, err);
    tear_down(&t, rc, err);
    return rc;
}
