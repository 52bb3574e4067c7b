/* SPDX-License-Identifier: Apache-2.0 */
#include "saving.h"
#include "lib/clock.h"
#include "run/checkpoint/directory.h"
#include "lib/file.h"
#include "base/core/storage.h"
#include "run/checkpoint/index.h"
#include "base/core/log.h"
#include "run/checkpoint/tokenizer_files.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Minimum number of seconds to allow for a save before one has been measured. */
#define FIRST_SAVE 60.0

/* Seconds to wait before each retry of the last save. */
static const unsigned pauses[] = {5, 15, 45};

/* Nanoseconds between two agreements of the ranks. */
#define PERIOD_NS INT64_C(1000000000)

/* Set by SIGTERM, SIGUSR1 and the first SIGINT if --exit-signal-handler is given. */
static volatile sig_atomic_t terminated;

static void on_signal(int number)
{
    (void)number;
    terminated = 1;
}

static void say(const char *text)
{
    printf("%s\n", text);
    fflush(stdout);
}

void saving_tokenizer(const struct arguments *a, const char *directory)
{
    const char *from = a->checkpoint.load_hf ? a->checkpoint.load_hf : a->checkpoint.load;
    struct error err;
    int rc = 0;

    if (a->tokenizer_named)
        rc = tokenizer_files_save(directory, &a->data.tokenizer, &err);
    else if (from)
        rc = tokenizer_files_copy(from, directory, 1, &err);
    if (rc < 0)
        log_warning("%s will have no copy of the tokenizer: %s", directory, err.text);
}

/* Do both directories contain the same checkpoint of the iteration that --load names? */
static int is_same_run(const struct arguments *a)
{
    char paths[2][PATH_MAX];
    struct file_bytes texts[2] = {{0}};
    int64_t iteration = a->checkpoint.ckpt_step;
    int same = 0;

    if (iteration < 0 && directory_newest(a->checkpoint.load, -1, &iteration, NULL) < 0)
        return 0;
    if (iteration >= 0 &&
        directory_path(paths[0], NULL, "%s/iter_%07" PRId64 "/" INDEX_NAME, a->checkpoint.load,
                       iteration) == 0 &&
        directory_path(paths[1], NULL, "%s/iter_%07" PRId64 "/" INDEX_NAME, a->checkpoint.save,
                       iteration) == 0 &&
        file_read(paths[0], (size_t)1 << 30, &texts[0], NULL) == 0 &&
        file_read(paths[1], (size_t)1 << 30, &texts[1], NULL) == 0)
        same = texts[0].length == texts[1].length &&
               memcmp(texts[0].data, texts[1].data, texts[0].length) == 0;
    file_bytes_clear(&texts[0]);
    file_bytes_clear(&texts[1]);
    return same;
}

int saving_check(const struct arguments *a, struct error *err)
{
    int64_t *list = NULL;
    size_t count = 0;
    int own;

    if (a->checkpoint.save && directory_prepare(a->checkpoint.save, err) < 0) {
        error_prefix(err, "cannot save checkpoints");
        return error_append(err, "; choose another directory with --save");
    }
    own = a->checkpoint.load && a->checkpoint.save &&
          file_is_same(a->checkpoint.load, a->checkpoint.save);
    if (!a->checkpoint.save || (own && !a->checkpoint.finetune))
        return 0;
    /* With --finetune a run begins at iteration 0 and does not overwrite an imported checkpoint.
     */
    if (directory_list(a->checkpoint.save, &list, &count, NULL) < 0 || count == 0 ||
        (own && list[0] == 0) ||
        (a->checkpoint.load && !a->checkpoint.finetune && is_same_run(a))) {
        free(list);
        return 0;
    }
    if (own)
        error_set_code(err, ERROR_USAGE,
                       "--save %s contains checkpoints (the newest is of iteration %" PRId64
                       "), which this run would overwrite, because it starts at iteration 0 with "
                       "--finetune; to resume from them drop --finetune, otherwise use another "
                       "directory for --save",
                       a->checkpoint.save, list[0]);
    else
        error_set_code(err, ERROR_USAGE,
                       "--save %s already contains checkpoints (the newest is of iteration %" PRId64
                       "), which this run would overwrite; to resume from them use --load %s, "
                       "otherwise use another directory for --save",
                       a->checkpoint.save, list[0], a->checkpoint.save);
    free(list);
    return -1;
}

static int create(struct saving *s, struct engine *engine, const struct parallel *parallel,
                  struct device *device, struct error *err)
{
    const struct arguments *a = s->a;
    const struct optimizer_state *o = optimizer_state(engine_optimizer(engine));
    struct checkpoint_arrays arrays = {.master = o->here.master,
                                       .moment1 = o->here.moment1,
                                       .moment2 = o->here.moment2,
                                       .hosted = o->hosted,
                                       .host_master = o->host.master,
                                       .host_moment1 = o->host.moment1,
                                       .host_moment2 = o->host.moment2,
                                       .moment1_type = o->types.moment1,
                                       .moment2_type = o->types.moment2};
    struct checkpoint_config config = {
        .save = a->checkpoint.save,
        .load = a->checkpoint.load,
        .keep_last = a->checkpoint.keep_last > 0 ? a->checkpoint.keep_last : 0,
        .save_optimizer = a->checkpoint.save_optimizer,
        .load_optimizer = a->checkpoint.load_optimizer,
        .load_rng = a->checkpoint.load_rng,
        .finetune = a->checkpoint.finetune,
        .override_scheduler = a->checkpoint.override_scheduler,
        .async = a->checkpoint.async_save,
        .step = a->checkpoint.ckpt_step,
        .must_find = a->checkpoint.exit_on_missing || a->run.skip_train,
        .model = &a->model_config,
        .rules = &a->rules,
        .say = say,
    };

    s->checkpoint =
        checkpoint_create(&config, engine_model(engine), parallel, device, &arrays, err);
    if (!s->checkpoint)
        return -1;
    if (a->checkpoint.save && parallel->comm->rank == parallel->comm->size - 1)
        saving_tokenizer(a, a->checkpoint.save);
    return 0;
}

static void watch_end(struct saving *s)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    s->began = s->agreed = clock_now();
    s->period = 1;
    /* Even if a job is too short for its saves, at least half of its time goes to training. */
    if (s->world->job_end > 0)
        s->margin_most = ((double)s->world->job_end - (double)time(NULL)) / 2;
    if (!s->a->run.exit_signal_handler)
        return;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    action.sa_flags |= SA_RESETHAND; /* a second Ctrl-C ends the process at once */
    sigaction(SIGINT, &action, NULL);
}

int saving_open(struct saving *s, const struct arguments *a, const struct world *world,
                struct engine *engine, const struct parallel *parallel, struct device *device,
                int initialize, struct error *err)
{
    struct checkpoint_loaded loaded = {.seed = (uint64_t)a->run.seed};
    int rc = 0;

    *s = (struct saving){.a = a, .world = world, .comm = parallel->comm, .saved = -1};
    s->optimizer = engine_optimizer(engine);
    watch_end(s);
    if ((a->checkpoint.save || a->checkpoint.load) && create(s, engine, parallel, device, err) < 0)
        return -1;
    if (a->checkpoint.load)
        rc = checkpoint_load(s->checkpoint, &loaded, err);
    if (rc < 0)
        return rc;
    s->start = loaded.progress;
    s->loaded = loaded.iteration;
    s->seed = loaded.seed;
    s->saved = loaded.progress.iteration;
    return engine_start(engine, initialize && !loaded.found, loaded.resumes ? &loaded.state : NULL,
                        s->seed, err);
}

void saving_close(struct saving *s)
{
    checkpoint_destroy(s->checkpoint);
    s->checkpoint = NULL;
}

/* Must this rank exit? A signal may reach only one rank, and clocks differ. */
static int must_end(const struct saving *s)
{
    const struct arguments *a = s->a;
    double margin;

    if (terminated ||
        (a->run.exit_duration > 0 && clock_now() - s->began > 60 * a->run.exit_duration))
        return 1;
    if (s->world->job_end == 0 || !s->checkpoint || !a->checkpoint.save)
        return 0;
    margin = 10 + 2 * checkpoint_seconds(s->checkpoint);
    if (checkpoint_saved(s->checkpoint) < 0)
        margin = fmax(margin, FIRST_SAVE);
    margin += s->longest_period + 2 * s->longest_step;
    if (margin > s->margin_most)
        margin = s->margin_most;
    return (double)time(NULL) + margin > (double)s->world->job_end;
}

/* Is there anything that all ranks must agree on? */
static int watches(const struct saving *s)
{
    return s->a->checkpoint.save || s->a->run.exit_duration > 0 || s->a->run.exit_signal_handler;
}

/* Ask all ranks whether one of them must exit, and how long a step takes on the slowest, which
 * determines when they are asked again. */
static int agree_on_end(struct saving *s, int *end, struct error *err)
{
    double taken = clock_now() - s->agreed, step = taken / (double)s->steps;
    int64_t numbers[2];

    /* The first interval includes everything before the first step: loading, indices, autotuning.
     */
    if (s->agreed > s->began) {
        s->longest_period = fmax(s->longest_period, taken);
        s->longest_step = fmax(s->longest_step, step);
    }
    numbers[0] = must_end(s);
    numbers[1] = (int64_t)(1e9 * step);
    if (comm_host_max(s->comm, numbers, 2, err) < 0)
        return -1;
    *end |= numbers[0] != 0;
    s->period = numbers[1] < PERIOD_NS ? PERIOD_NS / (numbers[1] + 1) : 1;
    if (s->period > 2 * s->steps)
        s->period = 2 * s->steps; /* the first steps are not representative */
    s->steps = 0;
    s->agreed = clock_now();
    return 0;
}

int saving_due(const struct saving *s, const struct progress *progress)
{
    return s->checkpoint && s->a->checkpoint.save && s->a->checkpoint.save_interval > 0 &&
           progress->iteration % s->a->checkpoint.save_interval == 0;
}

/* Start a save, unless saving is withheld, which all ranks agree on. */
static int save(struct saving *s, const struct progress *progress, struct error *err)
{
    if (!s->withheld) {
        s->saved = progress->iteration;
        s->refused = 0;
        if (checkpoint_save(s->checkpoint, progress, err) < 0)
            return -1;
        optimizer_hold(s->optimizer, checkpoint_copied(s->checkpoint));
        return 0;
    }
    if (s->comm->rank == s->comm->size - 1 && !s->refused)
        log_warning("not saving a checkpoint at iteration %lld: the gradients of the last steps "
                    "were inf or NaN, so it would be no better than the previous checkpoint; lower "
                    "--lr, or check the data",
                    (long long)progress->iteration);
    s->refused = 1;
    return 0;
}

int saving_step(struct saving *s, const struct progress *progress, int *end, struct error *err)
{
    const struct arguments *a = s->a;

    *end = a->run.exit_interval > 0 && progress->iteration % a->run.exit_interval == 0;
    if (s->checkpoint && checkpoint_step(s->checkpoint, err) < 0)
        return -1;
    if (++s->steps >= s->period && watches(s)) {
        if (agree_on_end(s, end, err) < 0 ||
            (s->checkpoint && checkpoint_poll(s->checkpoint, err) < 0))
            return -1;
    }
    return saving_due(s, progress) ? save(s, progress, err) : 0;
}

/* Wait before retrying a save if all ranks have enough time left in the job; otherwise set 'over'.
 */
static int pause_before_save(struct saving *s, unsigned seconds, int *over, struct error *err)
{
    double needed = seconds + 10 + 2 * checkpoint_seconds(s->checkpoint);
    int64_t late = s->world->job_end > 0 && (double)time(NULL) + needed > (double)s->world->job_end;

    if (comm_host_max(s->comm, &late, 1, err) < 0)
        return -1;
    *over = late != 0;
    if (*over)
        return 0;
    if (s->comm->rank == s->comm->size - 1) {
        printf("retrying the last checkpoint in %u s\n", seconds);
        fflush(stdout);
    }
    clock_sleep(seconds);
    return 0;
}

int saving_end(struct saving *s, const struct progress *progress, struct error *err)
{
    size_t tries = sizeof(pauses) / sizeof(pauses[0]);
    int over = 0;

    if (!s->checkpoint || !s->a->checkpoint.save)
        return 0;
    /* At the end, waiting delays nothing. */
    if (checkpoint_wait(s->checkpoint, err) < 0)
        return -1;
    if (s->saved != progress->iteration &&
        (save(s, progress, err) < 0 || checkpoint_wait(s->checkpoint, err) < 0))
        return -1;
    for (size_t i = 0; i < tries && checkpoint_failed(s->checkpoint) && !s->withheld; i++) {
        if (pause_before_save(s, pauses[i], &over, err) < 0)
            return -1;
        if (over)
            break;
        if (save(s, progress, err) < 0 || checkpoint_wait(s->checkpoint, err) < 0)
            return -1;
    }
    if (checkpoint_failed(s->checkpoint))
        return error_set(
            err, "cannot save the last checkpoint (iteration %lld) to %s; see the warnings above",
            (long long)progress->iteration, s->a->checkpoint.save);
    return 0;
}
