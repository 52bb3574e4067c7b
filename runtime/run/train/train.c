/* SPDX-License-Identifier: Apache-2.0 */
#include "train.h"

#include <inttypes.h>
#include <stdio.h>

#include "lib/clock.h"
#include "run/exchange/hf.h"
#include "base/core/log.h"
#include "rank_memory.h"
#include "train_private.h"

struct masked *train_masked(const struct train *t, enum dataset_split split)
{
    struct dataset *data = t->feeds.splits[split];

    return data ? dataset_masked(data) : NULL;
}

int64_t train_data_step(const struct train *t)
{
    return t->consumed / t->a->run.global_batch_size;
}

static struct progress progress_of(const struct train *t)
{
    return (struct progress){t->iteration, t->consumed, t->consumed_valid};
}

static int take_step(struct train *t, struct error *err)
{
    const struct arguments *a = t->a;
    int64_t batch = batch_size_at(a, t->consumed);
    int64_t micros = batch / (a->run.micro_batch_size * a->layout.dp);

    comm_set_step(t->comm, t->iteration);
    if (train_run_step(t, micros, err) < 0)
        return -1;
    t->iteration++;
    t->consumed += batch;
    if (t->iteration == t->saving.start.iteration + 1 && t->prints) {
        struct step_state state;

        if (engine_state(t->engine, &state, err) < 0)
            return -1;
        printf("time to first step: %.2f s\n", clock_now() - t->began);
    }
    if (t->iteration % a->output.log_interval == 0 || t->iteration == t->total)
        return train_log_steps(t, batch, err);
    return 0;
}

/* Before a save: weights that no longer change must not displace good checkpoints. */
static int look_before_save(struct train *t, struct error *err)
{
    struct step_state state;

    if (engine_state(t->engine, &state, err) < 0)
        return -1;
    standstill_look(&t->standstill, &state, &t->a->rules, t->iteration);
    t->saving.withheld = standstill_steps(&t->standstill, t->iteration) >= STANDSTILL_UNSAVED;
    return 0;
}

/* Is there more to do after this step than to take the next one? */
static int pauses(const struct train *t)
{
    struct progress progress = progress_of(t);

    return train_evaluates_now(t) || train_ends_epoch(t) || saving_due(&t->saving, &progress);
}

/* Write the log line of the step before, while the device runs this one. */
static int log_before(void *context, struct error *err)
{
    return train_log_rest(context, err);
}

static int loop(struct train *t, struct error *err)
{
    const struct arguments *a = t->a;
    struct progress progress;
    struct step_state state;
    int end = 0;

    if (engine_state(t->engine, &state, err) < 0)
        return -1;
    t->standstill = (struct standstill){state.adam_step, t->iteration};
    t->finished = clock_now();
    engine_on_busy(t->engine, log_before, t);
    if (t->iteration >= t->total && t->prints)
        printf("training is already finished: the checkpoint in %s is at iteration %" PRId64
               " of %" PRId64 "; raise --train-iters or --train-samples to continue, with "
               "--override-opt_param-scheduler if the learning rate decays to the end of the run\n",
               a->checkpoint.load, t->iteration, t->total);
    while (t->iteration < t->total && !end) {
        if (take_step(t, err) < 0 || (pauses(t) && train_log_rest(t, err) < 0))
            return -1;
        if (train_evaluates_now(t) && train_evaluate_between(t, err) < 0)
            return -1;
        if (train_ends_epoch(t) && train_log_fairseq_epoch(t, err) < 0)
            return -1;
        progress = progress_of(t);
        if (saving_due(&t->saving, &progress) && look_before_save(t, err) < 0)
            return -1;
        if (saving_step(&t->saving, &progress, &end, err) < 0)
            return -1;
    }
    progress = progress_of(t);
    if (train_log_rest(t, err) < 0 || look_before_save(t, err) < 0 ||
        saving_end(&t->saving, &progress, err) < 0)
        return -1;
    if (!end && train_check_standstill(t, t->iteration, STANDSTILL_UNSAVED, err) < 0)
        return -1;
    if (end && t->prints)
        printf("exiting program at iteration %" PRId64 "\n", t->iteration);
    if (!end && train_evaluate_end(t, err) < 0)
        return -1;
    if (t->iteration < t->total)
        return TRAIN_ENDED_EARLY;
    if (a->checkpoint.save_hf && model_facts(engine_model(t->engine)).keeps_fp8 &&
        optimizer_export(engine_optimizer(t->engine), err) < 0)
        return error_prefix(err, "--save-hf");
    if (a->checkpoint.save_hf && hf_save(a->checkpoint.save_hf, &a->model_config,
                                         engine_model(t->engine), &t->parallel, t->device, err) < 0)
        return error_prefix(err, "--save-hf");
    if (a->checkpoint.save_hf && t->prints)
        saving_tokenizer(a, a->checkpoint.save_hf);
    return 0;
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

    rc = train_set_up(&t, err);
    if (rc == 0)
        rc = (arguments->run.skip_train ? train_evaluate_only : loop)(&t, err);
    if (rc >= 0)
        train_report_profile(&t);
    /* Without this file the run is only started once more and finds that it is finished. */
    if (rc == 0 && train_leave_mark(&t, TRAIN_DONE, &trouble) < 0)
        log_warning("%s", trouble.text);
    if (rc == -1 && t.device && t.device->ran_out)
        rank_memory_advise(arguments, err);
    /* Writes nothing if the device or another rank has failed, or if the step is still running. */
    if (rc == -1 && t.unlogged.iteration > 0 && engine_report_done(t.engine))
        train_log_rest(&t, &trouble);
    if (rc == -1 && t.comm)
        ending_abort(t.comm, err);
    tear_down(&t, rc, err);
    return rc;
}
