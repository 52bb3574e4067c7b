/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in the last task to arrive: checks, rendezvous and placement for all tasks of the node. */
#include "task_private.h"

#include <errno.h>
#include <inttypes.h>
#include <slurm/slurm.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checks.h"
#include "lib/contract.h"
#include "gpus.h"
#include "lib/node.h"
#include "lib/parse.h"
#include "rendezvous.h"
#include "report.h"

enum { LINE_SIZE = 2048 };

static void say(const struct task *task, bool warns, const char *format, va_list arguments)
{
    char text[LINE_SIZE];

    vsnprintf(text, sizeof(text), format, arguments);
    slurm_spank_log(warns ? "megatron: %s: warning: %s" : "megatron: %s: %s", task->facts.node,
                    text);
}

void task_note(const struct task *task, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say(task, false, format, arguments);
    va_end(arguments);
}

void task_warn(const struct task *task, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say(task, true, format, arguments);
    va_end(arguments);
}

static int check_versions(const struct task *task, struct error *err)
{
    const struct handoff *handoff = &task->facts.handoff;
    char text[256];

    if (!handoff->version[0] || (strcmp(handoff->version, plugin_version_text()) == 0 &&
                                 handoff->contract == CONTRACT_VERSION))
        return 0;
    snprintf(text, sizeof(text),
             "plugin version %s (for Slurm %s) on the submit host, %s (for Slurm %s) here",
             handoff->version, handoff->slurm, plugin_version_text(), plugin_slurm_text());
    if (handoff->contract != CONTRACT_VERSION)
        return error_set(err, "incompatible plugin versions: %s; install one version everywhere",
                         text);
    task_warn(task, "%s; install one version everywhere", text);
    return 0;
}

/* Warn about problems between NCCL and the fabric: a silent fallback to TCP, memory that cannot be
 * locked. Most nodes are alike, so only one of them warns. */
static void check_fabric(const struct task *task)
{
    const struct plugin *plugin = task->plugin;
    struct node_fabric fabric;
    struct error sentences[NODE_SENTENCES];
    char libraries[4096];
    bool nics = false;

    for (uint32_t i = 0; i < plugin->share->tasks; i++)
        nics |= plugin->share->task[i].result.nics[0] != '\0';
    if (!nics || task->facts.nodes < 2 || (task->facts.node_rank > 0 && !plugin->settings.verbose))
        return;
    facts_variable(task->spank, "LD_LIBRARY_PATH", libraries, sizeof(libraries));
    node_fabric_read(plugin->config.sysroot ? plugin->config.sysroot : "", libraries, &fabric);
    /* In a container the image's libraries matter, which cannot be seen from here. */
    if (plugin->settings.image.used)
        fabric.libfabric = fabric.efa_provider = fabric.nccl_plugin = fabric.libibverbs = 1;
    for (size_t i = 0, count = node_fabric_warnings(&fabric, sentences); i < count; i++)
        task_warn(task, "%s", sentences[i].text);
}

static void show(const struct task *task)
{
    const struct share *share = task->plugin->share;
    char *text = report_show(share, task->facts.node, plugin_version_text(), plugin_slurm_text());
    size_t done = 0, size = text ? strlen(text) : 0;

    while (done < size) {
        ssize_t wrote = write(STDERR_FILENO, text + done, size - done);

        if (wrote <= 0 && errno != EINTR)
            break;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    free(text);
}

/* Print each line of 'rest', which is modified. */
static void print_lines(const struct task *task, char *rest,
                        void (*print)(const struct task *task, const char *format, ...))
{
    char *line;

    while ((line = strsep(&rest, "\n")))
        if (line[0])
            print(task, "%s", line);
}

/* Counts may be right and groups still be split across nodes: that depends on --distribution. */
static int check_groups(const struct share *share, int64_t tp, struct error *err)
{
    for (uint32_t i = 0; i < share->tasks; i++) {
        int64_t group = share->task[i].found.rank / tp, here = 0;

        for (uint32_t k = 0; k < share->tasks; k++)
            here += share->task[k].found.rank / tp == group;
        if (here != tp)
            return error_set(err,
                             "only %" PRId64 " of the %" PRId64
                             " ranks in the tensor-parallel group of rank %" PRIu32
                             " run on this node; use --distribution=block and --ntasks-per-node",
                             here, tp, share->task[i].found.rank);
    }
    return 0;
}

int task_decide(struct task *task, struct error *err)
{
    struct plugin *plugin = task->plugin;
    struct settings *settings = &plugin->settings;
    const struct facts *facts = &task->facts;
    char text[32];
    struct place_input input = {
        .settings = settings,
        .config = &plugin->config,
        .node = facts->node,
        .overrides = facts->handoff.overrides,
        .cgroup_root = "",
    };

    parse_int64("", facts_variable(task->spank, "SLURM_GPUS_ON_NODE", text, sizeof(text)), 0, 4096,
                &input.gpus_on_node, NULL);
    if (check_versions(task, err))
        return -1;
    struct counts counts = {
        .tasks = facts->world,
        .nodes = facts->nodes,
        .tasks_per_node = facts->local_size,
        .gpus_per_node = (int64_t)gpus_count(plugin->share, input.gpus_on_node),
    };

    if (!(plugin->config.off & PART_CHECKS) &&
        (check_counts(settings, &counts, err) ||
         (counts.gpus_per_node > 0 && counts.tasks_per_node > 1 &&
          check_groups(plugin->share, settings->layout.tp, err))))
        return error_prefix(err, "%s", facts->node);
    if (!(plugin->config.off & PART_RENDEZVOUS)) {
        if (rendezvous_find(task->spank, facts, &plugin->config, plugin->share, err))
            return -1;
        if (!plugin->share->master[0])
            task_warn(task, "cannot determine which node runs rank 0; set MASTER_ADDR");
    }
    if (place_tasks(plugin->share, &input, &task->notes, err))
        return error_prefix(err, "%s", facts->node);
    check_fabric(task);
    print_lines(task, task->notes.warnings, task_warn);
    /* A user who lists CPUs wants to know which of them do not exist. One node tells. */
    if (settings->verbose ||
        (settings->bind[0] >= '0' && settings->bind[0] <= '9' && facts->node_rank == 0))
        print_lines(task, task->notes.text, task_note);
    if (settings->show)
        show(task);
    return 0;
}
