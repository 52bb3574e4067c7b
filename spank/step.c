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
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cgroup.h"
#include "lib/clock.h"
#include "controller.h"
#include "facts.h"
#include "image.h"

/* How often tasks that are starting and then programs are asked to end, with pauses that double
 * from a tenth of a second, before the step is killed; and the timeouts of the processes that do
 * it, which may hang after a fork in a threaded program. Removing the layers of a large image takes
 * longer. */
enum {
    START_TIMES = 3,
    ASK_TIMES = 6,
    KILL_TIMES = 3,
    STUCK_SECONDS = 60,
    RELEASE_SECONDS = 60,
    CLEAN_UP_SECONDS = 600
};

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

void step_user_init(struct plugin *plugin, spank_t spank)
{
    struct error err;
    uint32_t tasks = 0;

    plugin->used = settings_used(&plugin->settings, &plugin->config) && is_srun_step(spank);
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

/* A process that works for a user when the step is over. It leaves the cgroups of the job, which
 * Slurm removes with the step, so it must not become a way out of the job's limits: the user's
 * processes could trace a process of the same user, and run their own code in it. So the kernel
 * must not allow tracing it: it is not dumpable, or, as exec resets that, belongs to a group that
 * is not the user's. A process of root, which the user cannot stop, ends it when its time is up. */
struct errand {
    const char *name; /* of the processes */
    unsigned seconds;
    bool execs;
    void (*call)(const struct plugin *plugin, uint32_t job, uint32_t step);
};

/* The user whose job it is. */
struct job_user {
    uint32_t job, step;
    uid_t uid;
    gid_t gid, *groups;
    int group_count;
};

/* The group of a process that execs: neither the user's own nor one that the user can change to. */
static gid_t strange_group(const struct job_user *user)
{
    gid_t group = 65534;

    for (int i = 0; i < user->group_count; i++)
        if (group == user->gid || group == user->groups[i]) {
            group--;
            i = -1;
        }
    return group == user->gid ? group - 1 : group;
}

static bool set_groups(const struct job_user *user, bool execs)
{
    gid_t *groups = calloc((size_t)user->group_count + 1, sizeof(*groups));
    gid_t group = execs ? strange_group(user) : user->gid;

    if (!groups)
        return false;
    for (int i = 0; i < user->group_count; i++)
        groups[i] = user->groups[i];
    /* Directories of the user's group remain accessible. */
    groups[user->group_count] = user->gid;
    return setgroups((size_t)user->group_count + 1, groups) == 0 &&
           setresgid(group, group, group) == 0;
}

/* While the saved user is root nobody else can trace this process; a change of the saved user alone
 * leaves it not dumpable. */
static bool become(const struct job_user *user, bool execs)
{
    const struct rlimit none = {0, 0};
    bool is_root = geteuid() == 0;

    if (is_root && (!set_groups(user, execs) || setresuid(user->uid, user->uid, 0) < 0))
        return false;
    if (prctl(PR_SET_DUMPABLE, 0) < 0 ||
        (is_root && setresuid(user->uid, user->uid, user->uid) < 0) || prctl(PR_GET_DUMPABLE) != 0)
        return false;
    setrlimit(RLIMIT_CORE, &none);
    return execs || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/* slurmstepd exempts itself from the kernel's killer of processes when memory runs out. */
static void allow_oom_kill(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    (void)!write(fd, "0", 1);
    close(fd);
}

/* In the process that works. slurmstepd blocks and catches signals. */
static void work(const struct errand *errand, const struct job_user *user,
                 const struct plugin *plugin)
{
    sigset_t none;

    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpriority(PRIO_PROCESS, 0, 19);
    allow_oom_kill();
    if (setsid() >= 0 && chdir("/") == 0 && become(user, errand->execs))
        errand->call(plugin, user->job, user->step);
    _exit(0);
}

/* In root's process: wait for it, and end it and what it has started after its time. */
static void supervise(pid_t worker, unsigned seconds)
{
    double end = clock_now() + seconds;
    siginfo_t info = {.si_pid = 0};

    /* Its number is not used again before waitpid. */
    while (waitid(P_PID, (id_t)worker, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0 && clock_now() < end)
        clock_sleep(0.05);
    kill(worker, SIGKILL);
    kill(-worker, SIGKILL);
    waitpid(worker, NULL, 0);
}

/* In separate processes: it must not delay slurmstepd, since the step is not over before slurmstepd
 * exits, nor hold its cgroups, which Slurm tries to remove only once. */
static void run(spank_t spank, const struct errand *errand, const struct plugin *plugin)
{
    struct job_user user = {.groups = NULL};
    pid_t child, worker;

    if (spank_get_item(spank, S_JOB_ID, &user.job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &user.step) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_UID, &user.uid) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_GID, &user.gid) != ESPANK_SUCCESS)
        return;
    /* A cache may be in a directory that only a group can access. */
    if (spank_get_item(spank, S_JOB_SUPPLEMENTARY_GIDS, &user.groups, &user.group_count) !=
            ESPANK_SUCCESS ||
        !user.groups || user.group_count < 0)
        user.group_count = 0;
    child = fork();
    if (child == 0) {
        /* Before the second fork, since slurmstepd waits for this process only. */
        cgroup_leave_job("");
        if (fork() != 0)
            _exit(0);
        close_range(0, ~0U, 0);
        open("/dev/null", O_RDWR);
        dup2(0, 1);
        dup2(0, 2);
        prctl(PR_SET_NAME, errand->name);
        prctl(PR_SET_DUMPABLE, 0);
        signal(SIGCHLD, SIG_DFL);
        setsid();
        worker = fork();
        if (worker == 0)
            work(errand, &user, plugin);
        if (worker > 0)
            supervise(worker, errand->seconds);
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

static void release(const struct plugin *plugin, uint32_t job, uint32_t step)
{
    (void)job, (void)step;
    image_release(&plugin->share->leftovers, &plugin->config);
}

static void clean_up(const struct plugin *plugin, uint32_t job, uint32_t step)
{
    const struct rlimit none = {0, 0};

    (void)job, (void)step;
    setrlimit(RLIMIT_NPROC, &none);
    image_clean_up(&plugin->share->leftovers, &plugin->config);
}

void step_exit(struct plugin *plugin, spank_t spank)
{
    static const struct errand end = {"megatron-end", STUCK_SECONDS, false, end_step};
    static const struct errand tell = {"megatron-notify", RELEASE_SECONDS, true, release};
    static const struct errand sweep = {"megatron-sweep", CLEAN_UP_SECONDS, false, clean_up};
    const struct share *share = plugin->used ? plugin->share : NULL;

    /* The user has the right to end the step. */
    if (share && share->end_step)
        run(spank, &end, plugin);
    if (share && image_needs_release(&share->leftovers, &plugin->config))
        run(spank, &tell, plugin);
    if (share && image_needs_clean_up(&share->leftovers, was_killed(plugin)))
        run(spank, &sweep, plugin);
}
