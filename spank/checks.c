/* SPDX-License-Identifier: Apache-2.0 */
#include "checks.h"

#include <inttypes.h>
#include <stdbool.h>

#include "lib/placement.h"

static const struct layout_names layout_names = {"--megatron-tp", "--megatron-pp", "--megatron-cp"};

static enum check_status check_model(struct settings *settings, const struct counts *counts,
                                     struct error *err)
{
    (void)counts;
    if (!settings->model)
        return CHECK_NOTHING;
    return layout_check_model(&settings->layout, settings->model, 1, &layout_names, err)
               ? CHECK_FAILED
               : CHECK_OK;
}

static enum check_status check_tasks(struct settings *settings, const struct counts *counts,
                                     struct error *err)
{
    if (counts->tasks <= 0)
        return CHECK_UNKNOWN;
    return layout_divide(&settings->layout, counts->tasks, &layout_names, err) ? CHECK_FAILED
                                                                               : CHECK_OK;
}

static enum check_status check_node(struct settings *settings, const struct counts *counts,
                                    struct error *err)
{
    int64_t tasks = counts->tasks_per_node > 0 ? counts->tasks_per_node : 0;
    int64_t gpus = counts->gpus_per_node > 0 ? counts->gpus_per_node : 0;

    if (layout_check_node(&settings->layout, tasks, gpus, &layout_names, err))
        return CHECK_FAILED;
    return tasks || gpus ? CHECK_OK : CHECK_UNKNOWN;
}

static enum check_status check_gpus(struct settings *settings, const struct counts *counts,
                                    struct error *err)
{
    int64_t tasks = counts->tasks_per_node, gpus = counts->gpus_per_node;

    if (tasks <= 0 || gpus < 0)
        return CHECK_UNKNOWN;
    if (gpus == 0 || tasks <= gpus || settings_shares_gpus(settings))
        return CHECK_OK;
    error_set(err,
              "%" PRId64 " tasks per node are more than the %" PRId64
              " GPUs of a node; use %" PRId64
              " tasks per node, or --megatron-bind=core or numa to share GPUs",
              tasks, gpus, gpus);
    return CHECK_FAILED;
}

static enum check_status check_lists(struct settings *settings, const struct counts *counts,
                                     struct error *err)
{
    size_t tasks = counts->tasks_per_node > 0 ? (size_t)counts->tasks_per_node : 0;

    if (placement_check_bind("--megatron-bind", settings->bind, tasks, err) ||
        placement_check_nics("--megatron-nics", settings->nics, tasks, err))
        return CHECK_FAILED;
    return CHECK_OK;
}

static const struct {
    const char *what;
    enum check_status (*run)(struct settings *, const struct counts *, struct error *);
    bool of_node; /* about one node, so components of a het job are checked one by one */
} checks[] = {
    {"the model can be divided this way", check_model, false},
    {"the layout divides the tasks", check_tasks, false},
    {"tensor-parallel groups stay within nodes", check_node, true},
    {"every task of a node has a GPU", check_gpus, true},
    {"--megatron-bind and --megatron-nics fit the tasks", check_lists, true},
};

static enum check_status check_components(size_t index, struct settings *settings,
                                          const struct counts *counts, struct error *err)
{
    enum check_status worst = CHECK_OK, status;
    struct counts one = *counts;

    for (size_t i = 0; i < counts->components; i++) {
        one.tasks_per_node = counts->component[i].tasks_per_node;
        one.gpus_per_node = counts->component[i].gpus_per_node;
        status = checks[index].run(settings, &one, err);
        if (status == CHECK_FAILED)
            return CHECK_FAILED;
        worst = status == CHECK_UNKNOWN ? CHECK_UNKNOWN : worst;
    }
    return worst;
}

int check_one(size_t index, struct settings *settings, const struct counts *counts,
              const char **what, struct error *err)
{
    if (index >= sizeof(checks) / sizeof(checks[0]))
        return -1;
    *what = checks[index].what;
    if (checks[index].of_node && counts->components > 1)
        return check_components(index, settings, counts, err);
    return checks[index].run(settings, counts, err);
}

int check_counts(struct settings *settings, const struct counts *counts, struct error *err)
{
    const char *what;
    int status;

    for (size_t i = 0; (status = check_one(i, settings, counts, &what, err)) >= 0; i++)
        if (status == CHECK_FAILED)
            return -1;
    return 0;
}
