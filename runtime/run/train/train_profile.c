/* SPDX-License-Identifier: Apache-2.0 */
/* --profile: which steps are profiled, and how. */
#include "train_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/clock.h"
#include "base/core/log.h"

/* Profile a single step and wait for it, so that other steps, evaluations and checkpoints do not
 * count. */
static int profile_step(struct train *t, int64_t micros, struct error *err)
{
    struct device *device = t->device;
    double began;
    int rc;

    if (device->profile_start(device, profile_add, &t->profile, err) < 0)
        return -1;
    began = clock_now();
    rc = engine_step(t->engine, t->feeds.loaders[DATASET_TRAIN], t->iteration, micros, err);
    if (rc == 0)
        rc = device->profile_stop(device, err);
    t->profile.elapsed += clock_now() - began;
    t->profile.steps++;
    return rc;
}

/* Is the step to be profiled? The first one loads kernels and allocates memory: it counts only if
 * it is asked for or is the only one. */
static int is_profiled(const struct train *t)
{
    const struct arguments *a = t->a;
    int64_t first = t->saving.start.iteration;

    if (!a->output.profile || (a->output.profile_end >= 0 && t->iteration >= a->output.profile_end))
        return 0;
    if (a->output.profile_start >= 0)
        return t->iteration >= a->output.profile_start;
    return t->iteration > first || t->total - first == 1;
}

int train_run_step(struct train *t, int64_t micros, struct error *err)
{
    return is_profiled(t)
               ? profile_step(t, micros, err)
               : engine_step(t->engine, t->feeds.loaders[DATASET_TRAIN], t->iteration, micros, err);
}

void train_report_profile(const struct train *t)
{
    if (!t->a->output.profile || !t->prints)
        return;
    if (t->profile.steps > 0)
        profile_print(&t->profile, stdout);
    else if (t->a->output.profile_end >= 0 && t->saving.start.iteration >= t->a->output.profile_end)
        log_warning("--profile has nothing to report: the run continued at step %" PRId64
                    ", after --profile-step-end %" PRId64 "; raise it",
                    t->saving.start.iteration, t->a->output.profile_end);
    else if (t->a->output.profile_start >= 0)
        log_warning("--profile has nothing to report: the run had no step from "
                    "--profile-step-start %" PRId64 " on; lower it",
                    t->a->output.profile_start);
    else
        log_warning("--profile has nothing to report: only the first step was run, which includes "
                    "one-time initialization; train for more iterations");
}
