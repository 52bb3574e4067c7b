/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation during, after and without training. */
#include "train_private.h"

#include <inttypes.h>
#include <stdio.h>

#include "lib/clock.h"

static int evaluate(struct train *t, enum dataset_split split, const char *what, struct error *err)
{
    const struct arguments *a = t->a;
    int64_t micros = a->run.global_batch_size / (a->run.micro_batch_size * a->layout.dp);
    int64_t steps = feeds_eval_steps(&t->feeds, a, split);
    struct engine_losses sums = {0};
    double loss, began = clock_now();

    if (a->run.full_validation && split == DATASET_VALID && !a->model.network.masked &&
        feeds_restart(&t->feeds, split, a, &t->parallel, err) < 0)
        return -1;
    for (int64_t i = 0; i < steps; i++)
        if (engine_evaluate(t->engine, t->feeds.loaders[split], micros, &sums, err) < 0)
            return error_prefix(err, "evaluation");
    loss = sums.lm / sums.weight;
    if (t->prints && a->mlm.log_format == LOG_JSON &&
        train_log_fairseq_valid(t, split, steps, loss, clock_now() - began, err) < 0)
        return -1;
    if (t->prints)
        outputs_evaluation(&t->outputs, t->iteration, t->consumed, split == DATASET_TEST, what,
                           loss, a->model.network.binary_head ? sums.pair / sums.pair_weight : NAN);
    return 0;
}

int train_ends_epoch(const struct train *t)
{
    struct masked *masked = train_masked(t, DATASET_TRAIN);

    return masked && train_data_step(t) % masked_steps(masked) == 0;
}

/* fairseq's recipe also validates after each epoch. */
int train_evaluates_now(const struct train *t)
{
    const struct arguments *a = t->a;

    if (!t->feeds.loaders[DATASET_VALID] || a->run.eval_iters == 0)
        return 0;
    return t->iteration % a->run.eval_interval == 0 ||
           (a->mlm.recipe == RECIPE_FAIRSEQ && train_ends_epoch(t));
}

int train_evaluate_between(struct train *t, struct error *err)
{
    struct step_state state;
    double before;
    char what[40];

    if (engine_state(t->engine, &state, err) < 0) /* end the interval of the steps so far */
        return -1;
    before = clock_now();
    snprintf(what, sizeof(what), "iteration %" PRId64, t->iteration);
    if (evaluate(t, DATASET_VALID, what, err) < 0)
        return -1;
    if (!t->a->run.full_validation)
        t->consumed_valid +=
            feeds_eval_steps(&t->feeds, t->a, DATASET_VALID) * t->a->run.global_batch_size;
    t->evaluated = t->iteration;
    t->excluded += clock_now() - before;
    return 0;
}

int train_evaluate_end(struct train *t, struct error *err)
{
    char what[64];

    snprintf(what, sizeof(what), "iteration %" PRId64 " on validation set", t->iteration);
    if (t->a->run.eval_iters > 0 && t->feeds.loaders[DATASET_VALID] &&
        t->evaluated != t->iteration && evaluate(t, DATASET_VALID, what, err) < 0)
        return -1;
    if (train_log_fairseq_epoch(t, err) < 0)
        return -1;
    snprintf(what, sizeof(what), "iteration %" PRId64 " on test set", t->iteration);
    return t->a->run.eval_iters > 0 && t->feeds.loaders[DATASET_TEST]
               ? evaluate(t, DATASET_TEST, what, err)
               : 0;
}

int train_evaluate_only(struct train *t, struct error *err)
{
    char what[64];

    if (!t->feeds.loaders[DATASET_VALID] && !t->feeds.loaders[DATASET_TEST]) {
        error_set_code(err, ERROR_USAGE,
                       "no data to evaluate on: there is no validation or test data; change "
                       "--split, or use --valid-data-path");
        return TRAIN_REFUSED;
    }
    snprintf(what, sizeof(what), "iteration %" PRId64 " on validation set", t->iteration);
    if (t->feeds.loaders[DATASET_VALID] && evaluate(t, DATASET_VALID, what, err) < 0)
        return -1;
    snprintf(what, sizeof(what), "iteration %" PRId64 " on test set", t->iteration);
    return t->feeds.loaders[DATASET_TEST] ? evaluate(t, DATASET_TEST, what, err) : 0;
}
