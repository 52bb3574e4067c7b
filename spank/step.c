/* SPDX-License-Identifier: Apache-2.0 */
/* slurmstepd before it forks: prepare what the tasks of the node share. This process runs as root
 * and its failures drain nodes, so it does next to nothing, and the tasks report what goes wrong.
 * After the tasks have exited: if one of them failed, the step must end on the other nodes too, and
 * if one was killed while it worked on an image, its leftovers must be removed. */
#include "plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cgroup.h"
#include "clock.h"
#include "controller.h"
#include "facts.h"
#include "image.h"
#include "old_socket.h"

/* How often tasks that are starting and then programs are asked to end, with pauses that double
 * from a tenth of a second, before the step is killed; and the timeout of the process that does it,
 * which may hang after a fork in a threaded program. Removing the layers of a large image takes
 * longer. */
enum { START_TIMES = 3, ASK_TIMES = 6, KILL_TIMES = 3, STUCK_SECONDS = 60, CLEAN_UP_SECONDS = 600 };

static uint16_t signal_of_try(int i)
{
    if (i < START_TIMES)
        return CONTROLLER_END_START;
    return i < ASK_TIMES ? SIGTERM : SIGKILL;
}

/* Batch scripts and extern and interactive steps have special step ids; they are ignored. */
static bool is_srun_step(spank_t spank)
{
    uint32_t step;

    return spank_get_item(spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS &&
           step <= SLURM_MAX_NORMAL_STEP_ID;
}

static bool uses_plugin(const struct plugin *plugin, spank_t spank)
{
    return settings_used(&plugin->settings, &plugin->config) && is_srun_step(spank);
}

bool step_clean(struct plugin *plugin, spank_t spank, char *path, size_t size)
{
    uint32_t job, step;
    char leader[16];

    if (!uses_plugin(plugin, spank) || spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
        return false;
    facts_variable(spank, "SLURM_JOB_ID", leader, sizeof(leader));
    return old_socket_remove(job, old_socket_job(job, leader), step, path, size);
}

void step_user_init(struct plugin *plugin, spank_t spank)
{
    struct error err;
    uint32_t tasks = 0;

    plugin->used = uses_plugin(plugin, spank);
    if (!plugin->used)
        return;
    if (spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS) {
        error_set(&err,
                  "Slurm did not report how many tasks this node has; see the log of slurmd, or "
                  "use --megatron-off");
        plugin_defer(plugin, &err);
        return;
    }
    plugin->tasks = tasks;
    plugin->share = share_create(tasks, &err);
    if (!plugin->share)
        plugin_defer(plugin, &err);
    /* Closed when this process exits, however that happens: then the container ends too. */
    if (pipe2(plugin->lifetime, O_CLOEXEC) < 0) {
        plugin->lifetime[0] = plugin->lifetime[1] = -1;
        error_set_errno(&err, errno, "slurmstepd cannot create a pipe");
        plugin_defer(plugin, &err);
    }
}

/* Nodes may start late, and a program may ignore SIGTERM; the step is over when it no longer
 * exists. */
static void end_step(const struct plugin *plugin, uint32_t job, uint32_t step)
{
    (void)plugin;
    for (int i = 0; i < ASK_TIMES + KILL_TIMES; i++) {
        clock_sleep(0.1 * (1 << (i < ASK_TIMES ? i : ASK_TIMES - 1)));
        if (controller_signal_step(job, step, signal_of_try(i)) > 0)
            return;
    }
}

/* Terminate this process after that time. slurmstepd blocks the signal, or catches and ignores it.
 */
static void limit_time(unsigned seconds)
{
    sigset_t set;

    signal(SIGALRM, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    alarm(seconds);
}

/* Run 'call' as the user in a separate process: it must not delay slurmstepd, since the step is not
 * over before slurmstepd exits, nor hold its cgroups, which Slurm tries to remove only once. */
static void as_user(spank_t spank, const char *name, unsigned seconds,
                    void (*call)(const struct plugin *plugin, uint32_t job, uint32_t step),
                    const struct plugin *plugin)
{
    uint32_t job, step;
    uid_t uid;
    gid_t gid, *groups = NULL;
    int group_count = 0;
    pid_t child;

    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_UID, &uid) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_GID, &gid) != ESPANK_SUCCESS)
        return;
    /* A cache may be in a directory that only a group can access. */
    if (spank_get_item(spank, S_JOB_SUPPLEMENTARY_GIDS, &groups, &group_count) != ESPANK_SUCCESS ||
        !groups || group_count < 0)
        group_count = 0;
    child = fork();
    if (child == 0) {
        /* Before the second fork, since slurmstepd waits for this process only. */
        cgroup_leave_job("");
        if (fork() != 0)
            _exit(0);
        limit_time(seconds);
        close_range(0, ~0U, 0);
        open("/dev/null", O_RDWR);
        dup2(0, 1);
        dup2(0, 2);
        prctl(PR_SET_NAME, name);
        if (setsid() >= 0 &&
            (geteuid() != 0 || (setgroups((size_t)group_count, groups) == 0 &&
                                setresgid(gid, gid, gid) == 0 && setresuid(uid, uid, uid) == 0)))
            call(plugin, job, step);
        _exit(0);
    }
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}

/* The leader started to get an image, and neither finished nor failed. */
static bool was_killed(const struct plugin *plugin)
{
    return plugin->share->image_state == SHARE_PENDING;
}

static void clean_up(const struct plugin *plugin, uint32_t job, uint32_t step)
{
    (void)job, (void)step;
    image_clean_up(&plugin->share->leftovers, &plugin->config, was_killed(plugin));
}

void step_exit(struct plugin *plugin, spank_t spank)
{
    const struct share *share = plugin->used ? plugin->share : NULL;

    /* The user has the right to end the step. */
    if (share && share->end_step)
        as_user(spank, "megatron-end", STUCK_SECONDS, end_step, plugin);
    if (share && image_needs_clean_up(&share->leftovers, &plugin->config, was_killed(plugin)))
        as_user(spank, "megatron-sweep", CLEAN_UP_SECONDS, clean_up, plugin);
}
