/* SPDX-License-Identifier: Apache-2.0 */
/* A task that cannot start: report one message for the whole step, and end the step on all nodes.
 * task.c explains the protocol. */
#include "task_private.h"

#include <fcntl.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/clock.h"
#include "controller.h"
#include "deadline.h"

enum { CONTROLLER_SECONDS = 8 };
/* How long a node waits for the first node to report, and a task for the one that reports for its
 * node. */
enum { FIRST_SECONDS = 2, REPORT_SECONDS = 5 };

void task_rename(const char *name, char before[17])
{
    before[0] = '\0';
    prctl(PR_GET_NAME, before);
    before[16] = '\0';
    prctl(PR_SET_NAME, name);
}

void task_restore_name(const char before[17])
{
    prctl(PR_SET_NAME, before);
}

/* Tasks that have not executed the user's program yet exit by themselves on this signal, so that
 * the step's exit code is that of a failure and not that of a signal. One signal may be too early
 * for some. When this task has ended, slurmstepd ends what is left, see step_exit; but the other
 * components of a het job can be reached only while this one exists. Staying for a while also lets
 * the message arrive: srun stops reading when the step is over. */
static int ask_step_to_end(void *argument)
{
    const struct task *task = argument;
    const struct facts *facts = &task->facts;
    double pause = 0.1;
    int rc = 1;

    for (int i = 0; i < 4; i++) {
        if (controller_signal_step(facts->job, facts->step,
                                   facts->het && i > 1 ? SIGKILL : CONTROLLER_END_START) != 0)
            break; /* the step is over, or the controller does not answer */
        rc = 0;
        clock_sleep(pause);
        pause += 0.2;
    }
    /* While other tasks of this node run their program, slurmstepd does not end the step. */
    if (rc == 0 && !facts->het && (!task->plugin->share || task->plugin->tasks > 1)) {
        clock_sleep(1.4);
        controller_signal_step(facts->job, facts->step, SIGTERM);
    }
    return rc;
}

/* Slurm prints two lines of its own for each failed task; ours explains the failure, once. Slurm's
 * remain in slurmd's log. */
static void silence(void)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (null >= 0) {
        dup2(null, STDERR_FILENO);
        close(null);
    }
}

/* An error on all nodes is reported by the first node, which then ends the step and with it this
 * process: nobody should read the same line from a thousand nodes. Within a node one task reports,
 * and the others exit only after it has: srun may end the step when the first task fails (-K). */
static void await_turn(const struct task *task, bool speaks)
{
    char name[17];

    task_rename(TASK_NAME_WAIT, name);
    if (!speaks)
        share_report_wait(task->plugin->share, FIRST_SECONDS + REPORT_SECONDS);
    else if (task->facts.nodes > 1 && task->facts.node_rank > 0)
        clock_sleep(FIRST_SECONDS);
    task_restore_name(name);
}

int task_fail(struct task *task, const struct error *err)
{
    struct share *share = task->plugin->share;
    bool speaks = !share || share_claim_report(share);

    if (share && speaks && !task->arrived) {
        share->error = *err;
        share_finish(share, SHARE_FAILED);
    }
    /* A quiet error: srun has reported it, and ends the step. */
    if (!err->quiet)
        await_turn(task, speaks);
    if (!speaks || err->quiet) {
        if (share && speaks)
            share_reported(share);
        silence();
        return -1;
    }
    /* What this task and others send to the step must not terminate this task. */
    signal(CONTROLLER_END_START, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    slurm_error("megatron: %s", err->text);
    if (share)
        share_reported(share);
    if (task->facts.nodes > 1) {
        if (share)
            share->end_step = 1;
        /* The container has no MUNGE socket, so slurmstepd ends the step, see step_exit. */
        if (!task->inside && with_deadline(ask_step_to_end, task, CONTROLLER_SECONDS) != 0 &&
            !share)
            slurm_error("megatron: cannot end the step on its other nodes; use scancel");
    }
    silence();
    return -1;
}
