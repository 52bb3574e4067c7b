/* SPDX-License-Identifier: Apache-2.0 */
/* The forked task, as the user, before it becomes the user's program. This is the only place on a
 * node that may fail: elsewhere a failure drains the node, or is not reported.
 *
 * How the tasks of a step start, step by step. Tasks of a node share memory (share.h); nodes share
 * nothing but Slurm and, for images, the cache of the user.
 *
 *  1. meet(): every task writes its facts (rank, GPUs, CPUs) to the shared memory and arrives. The
 *     last one to arrive is the leader; the others wait, for at most MEET_SECONDS.
 *  2. task_decide.c: the leader decides for all: checks, rendezvous, placement.
 *  3. task_container.c: with an image, the leader runs the importer as the user and starts
 *     the container, while the others wait. All of them are called megatron-image meanwhile: Slurm
 *     does not signal a process that is called slurmstepd, and an import must be cancellable.
 *     SIGTERM sets a flag in the leader, which undoes its work and exits; the others exit at
 *     once.
 *  4. apply(): every task binds itself, sets its environment, and joins the container.
 *
 * If anything fails, the step must end on all nodes, with one message (task_fail.c):
 *
 *  5. The first task of the node to fail claims the report; the others wait, called megatron-wait,
 *     until it has reported. If it failed before step 2, it also ends the wait of step 1.
 *  6. On the first node the report is printed at once. On other nodes the task waits FIRST_SECONDS,
 *     called megatron-wait: if the first node failed for the same reason, its signal arrives
 *     meanwhile and ends this task before it prints the same message.
 *  7. The task that has printed its report sends SIGURG to the step four times within 1.6 s (tasks
 *     that start late must get it, too), and ignores it itself. Tasks that have not reached their
 *     program exit with code 1; programs that run already, and tasks that have not called the
 *     plugin yet, are not affected. If the node has other tasks, which may run already, SIGTERM
 *     follows 3 s after the report. In a het job SIGKILL comes after two signals.
 *  8. It exits with code 1, and slurmstepd sends SIGURG three times, then SIGTERM,
 *     then SIGKILL, until the step is gone on all nodes (step_exit in step.c). A task that has not
 *     called the plugin by the first SIGTERM, 3 s after the report, may end with the signal. */
#include "task_private.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/contract.h"
#include "controller.h"
#include "environment.h"
#include "lib/node.h"
#include "request.h"

enum { MEET_SECONDS = 60 };

static void bind_memory(const struct task *task, const struct share_result *result)
{
    unsigned long mask[SHARE_NUMA_MAX / (8 * sizeof(unsigned long))];

    memcpy(mask, result->numa, sizeof(mask));
    if (syscall(SYS_set_mempolicy, MPOL_BIND, mask, SHARE_NUMA_MAX + 1) == 0)
        return;
    /* Not fatal: a kernel without NUMA, or memory that a cgroup does not allow. */
    if (task->plugin->settings.verbose &&
        __atomic_exchange_n(&task->plugin->share->unbound, 1, __ATOMIC_RELAXED) == 0)
        task_warn(task,
                  "cannot bind memory to the NUMA nodes of the task, so it is allocated on any: "
                  "%s; check cpuset.mems.effective of the job's cgroup",
                  strerror(errno));
}

/* Variables that the user exported take precedence. Warn if they change the layout that was
 * checked. */
static void report_kept(const struct task *task, const char *left)
{
    static const enum contract_variable layout[] = {CONTRACT_TP, CONTRACT_PP, CONTRACT_CP,
                                                    CONTRACT_MODEL};
    bool other = false;

    for (size_t i = 0; i < sizeof(layout) / sizeof(layout[0]); i++)
        other |= strstr(left, contract_name(layout[i])) != NULL;
    if (other && task->facts.node_rank == 0)
        task_warn(task,
                  "variables of the job override the options that were checked: %s; unset them",
                  left);
    else if (left[0] && task->plugin->settings.verbose)
        task_note(task, "these variables keep the values that the job exported: %s", left);
}

static int apply(struct task *task, struct error *err)
{
    struct plugin *plugin = task->plugin;
    const struct share_result *result = &plugin->share->task[task->facts.local].result;
    char left[ENVIRONMENT_LIST];

    if (result->bind && !(plugin->config.off & PART_BIND)) {
        if (cpuset_bind_thread(&result->cpus, err))
            return error_prefix(err, "%s", task->facts.node);
        if (result->bind_memory && !(plugin->config.off & PART_MEMORY) &&
            !(task->facts.handoff.overrides & OVERRIDE_MEM_BIND))
            bind_memory(task, result);
    }
    /* Only the leader has computed the data-parallel size. */
    plugin->settings.layout.dp =
        task->facts.world /
        (plugin->settings.layout.tp * plugin->settings.layout.pp * plugin->settings.layout.cp);
    if (environment_export(task->spank, &task->facts, &plugin->settings, &plugin->config,
                           plugin->share, left, err))
        return error_prefix(err, "%s", task->facts.node);
    if (task->facts.local == 0)
        report_kept(task, left);
    return 0;
}

/* A list that is too long must not look like an empty one: no GPU is named "?". */
static void read_list(const struct task *task, const char *name, char list[SHARE_LIST])
{
    if (spank_getenv(task->spank, name, list, SHARE_LIST) == ESPANK_NOSPACE)
        strcpy(list, "?");
    else
        facts_variable(task->spank, name, list, SHARE_LIST);
}

static int read_own(struct task *task, struct error *err)
{
    struct share *share = task->plugin->share;
    struct share_found *found = &share->task[task->facts.local].found;

    if (task->facts.local >= share->tasks)
        return error_set(
            err,
            "Slurm gives a task of %s the number %u, but the node has only %u tasks; see "
            "the log of slurmd on this node, or use --megatron-off",
            task->facts.node, task->facts.local, share->tasks);
    found->rank = task->facts.rank;
    if (cpuset_of_thread(&found->cpus, err))
        return error_prefix(err, "%s", task->facts.node);
    read_list(task, "SLURM_STEP_GPUS", found->gpus);
    read_list(task, "CUDA_VISIBLE_DEVICES", found->visible);
    found->confined = node_reachable_gpus(found->reach, sizeof(found->reach));
    return 0;
}

/* No early return between share_arrive and share_finish: the others would wait in vain. */
static int meet(struct task *task, struct error *err)
{
    struct share *share = task->plugin->share;

    task->arrived = true;
    if (share_arrive(share, task->facts.local)) {
        int rc = task_decide(task, &share->error);

        share->image_leader = getpid();
        share_finish(share, rc ? SHARE_FAILED : SHARE_DONE);
    } else if (share_wait(share, MEET_SECONDS, err))
        return error_prefix(err, "%s", task->facts.node);
    if (share->state == SHARE_FAILED)
        return error_set(err, "%s", share->error.text);
    return 0;
}

static int run_task_init(struct task *task)
{
    struct plugin *plugin = task->plugin;
    spank_t spank = task->spank;
    struct error err;

    if (facts_read(&task->facts, spank, &err))
        plugin_defer(plugin, &err);
    if (!plugin->failed && settings_resolve(&plugin->settings, &plugin->config, &err))
        plugin_defer(plugin, &err);
    if (!plugin->failed && plugin->settings.off)
        return 0;
    if (!plugin->failed && read_own(task, &err))
        plugin_defer(plugin, &err);
    if (!plugin->failed && task->facts.handoff.refused) {
        error_set(&err, "srun refused the step");
        error_silence(&err); /* srun has reported why */
        plugin_defer(plugin, &err);
    }
    if (plugin->failed)
        return task_fail(task, &plugin->failure);
    if (meet(task, &err) || task_open_container(task, &err) || apply(task, &err) ||
        task_enter_container(task, &err))
        return task_fail(task, &err);
    return 0;
}

int task_init(struct plugin *plugin, spank_t spank)
{
    static const int ending[] = {SIGTERM, CONTROLLER_END_START};
    const struct sigaction action = {.sa_handler = task_on_terminate};
    struct sigaction usual[2];
    sigset_t unblocked, mask;
    struct task *task;
    int rc;

    if (!plugin->used)
        return 0;
    task = calloc(1, sizeof(*task));
    if (!task) {
        slurm_error("megatron: out of memory; raise the memory limit of the job (sbatch --mem)");
        return -1;
    }
    task->plugin = plugin;
    task->spank = spank;
    /* If another node fails, it sends signals to this one. */
    sigemptyset(&unblocked);
    for (int i = 0; i < 2; i++) {
        sigaddset(&unblocked, ending[i]);
        sigaction(ending[i], &action, &usual[i]);
    }
    sigprocmask(SIG_UNBLOCK, &unblocked, &mask);
    rc = run_task_init(task);
    if (rc == 0) {
        sigprocmask(SIG_SETMASK, &mask, NULL);
        for (int i = 0; i < 2; i++)
            sigaction(ending[i], &usual[i], NULL);
    }
    free(task);
    return rc;
}
