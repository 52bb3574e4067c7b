/* SPDX-License-Identifier: Apache-2.0 */
/* The container of a step on this node: one task starts it, all join it. */
#include "task_private.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image.h"
#include "container/start.h"
#include "lib/parse.h"

/* How much longer than an import may take the other tasks wait: starting the container takes time,
 * too. */
enum { IMAGE_MARGIN_SECONDS = 600 };

static void say_image(void *argument, const char *line)
{
    task_note(argument, "%s", line);
}

/* Let the import use the CPUs of all tasks, which do not need them yet. Returns their number. */
static int use_all_cpus(const struct share *share)
{
    struct cpuset all = share->task[0].found.cpus;
    struct error err;

    for (uint32_t i = 1; i < share->tasks; i++)
        cpuset_unite(&all, &share->task[i].found.cpus);
    return cpuset_bind_thread(&all, &err) ? 1 : (int)cpuset_count(&all);
}

/* The GPUs of all tasks of the node for NVIDIA's hook; Slurm's numbers if the driver does not know
 * the GPUs. */
static void list_gpus(const struct share *share, char list[SHARE_LIST])
{
    struct cpuset all, own;

    cpuset_clear(&all);
    for (uint32_t i = 0; i < share->tasks; i++)
        if (cpuset_parse("", share->task[i].found.gpus, &own, NULL) == 0)
            cpuset_unite(&all, &own);
    strcpy(list, share->gpus);
    if (list[0])
        return;
    for (int gpu = cpuset_next(&all, -1); gpu >= 0; gpu = cpuset_next(&all, gpu))
        list_text_add(list, SHARE_LIST, ",", "%d", gpu);
}

/* Set while this task must undo work before it may exit, and once it is asked to exit. */
static stop_flag undoing, asked_to_end;

void task_on_terminate(int number)
{
    (void)number;
    if (!undoing)
        _exit(1);
    asked_to_end = 1;
}

/* In the leader: get the image and start the container. */
static int start_container(struct task *task, struct error *err)
{
    struct share *share = task->plugin->share;
    const struct facts *facts = &task->facts;
    const struct cpuset own = share->task[facts->local].found.cpus;
    const char *const *environment;
    char job[400], step[400], gpus[SHARE_LIST];
    struct error ignored;
    pid_t holder = 0;
    struct image_node node = {
        .settings = &task->plugin->settings.image,
        .config = &task->plugin->config,
        .home = facts->handoff.home,
        .node = facts->node,
        .job = job,
        .step = step,
        .gpus = gpus,
        .nodes = (int)facts->nodes,
        .lifetime = task->plugin->lifetime[0],
        .say = say_image,
        .argument = task,
        .stop = &asked_to_end,
        .leftovers = &share->leftovers,
    };
    int rc;

    if (spank_get_item(task->spank, S_JOB_ENV, &environment) != ESPANK_SUCCESS)
        return error_set(err,
                         "%s: cannot read the task's environment from Slurm; see the log of slurmd "
                         "on this node",
                         facts->node);
    node.environment = environment;
    /* Job ids are reused; with the job's start time, or srun's random mark, names are unique. */
    snprintf(step, sizeof(step), "%.200s-%u-%u-%u-%" PRIx64, facts->cluster, facts->job,
             facts->step, facts->restarts, (uint64_t)facts->handoff.mark);
    if (facts->handoff.start > 0)
        snprintf(job, sizeof(job), "%.200s-%u-%u-%" PRId64, facts->cluster, facts->job,
                 facts->restarts, facts->handoff.start);
    else
        snprintf(job, sizeof(job), "%s", step);
    list_gpus(share, gpus);
    for (uint32_t i = 0; i < share->tasks; i++)
        node.imports |= share->task[i].found.rank == 0;
    node.processors = use_all_cpus(share);
    undoing = 1;
    rc = image_start(&node, &holder, err);
    undoing = 0;
    /* Whichever process ended the step has reported why. */
    if (asked_to_end)
        _exit(1);
    share->holder = holder;
    /* Restore Slurm's binding; the plugin's own, if any, comes later. */
    cpuset_bind_thread(&own, &ignored);
    return rc < 0 ? error_prefix(err, "%s", facts->node) : 0;
}

static int take_variable(void *argument, const char *name, const char *value)
{
    struct task *task = argument;

    if (image_hides_variable(&task->plugin->settings.image, name))
        return 0;
    return spank_setenv(task->spank, name, value, 1) == ESPANK_SUCCESS ? 0 : -1;
}

/* The leader starts the container, the others wait for it. */
static int wait_for_container(struct task *task, struct error *err)
{
    struct share *share = task->plugin->share;
    const struct image_settings *image = &task->plugin->settings.image;

    if (share->image_leader == getpid()) {
        int rc = start_container(task, err);

        if (rc)
            share->error = *err;
        share_image_finish(share, rc ? SHARE_FAILED : SHARE_DONE);
    } else if (share_image_wait(share, image->timeout + IMAGE_MARGIN_SECONDS, err))
        return error_prefix(err, "%s", task->facts.node);
    return share->image_state == SHARE_FAILED ? error_set(err, "%s", share->error.text) : 0;
}

/* An import may take an hour; scancel and a failure of another node must end the step meanwhile. */
int task_open_container(struct task *task, struct error *err)
{
    char name[17];
    int rc;

    if (!task->plugin->settings.image.used)
        return 0;
    task_rename(TASK_NAME_IMAGE, name);
    rc = wait_for_container(task, err);
    task_restore_name(name);
    if (rc)
        return rc;
    return container_environment(task->plugin->share->holder, take_variable, task, err);
}

/* The job's TMPDIR may not exist in the image. Slurm reports that as an error, and repairs it in
 * the first task of a node only. */
static void repair_tmpdir(const struct task *task)
{
    char path[PATH_MAX];
    struct stat found;

    if (spank_getenv(task->spank, "TMPDIR", path, sizeof(path)) == ESPANK_SUCCESS &&
        mkdir(path, 0700) < 0 && (stat(path, &found) < 0 || !S_ISDIR(found.st_mode)))
        spank_setenv(task->spank, "TMPDIR", "/tmp", 1);
}

/* PMIx 5 offers ranks the job's data in a file of slurmstepd's that is not in the image, where
 * MPI_Init would fail: have them keep their own copy instead, unless the user chose something. */
static void avoid_pmix_file(const struct task *task)
{
    char modules[128];

    if (spank_getenv(task->spank, "PMIX_GDS_MODULE", modules, sizeof(modules)) == ESPANK_SUCCESS &&
        strstr(modules, "shmem"))
        spank_setenv(task->spank, "PMIX_MCA_gds", "hash", 0);
}

/* The last thing before the user's program: from here on, this process sees the image's files. */
int task_enter_container(struct task *task, struct error *err)
{
    const struct image_settings *image = &task->plugin->settings.image;
    bool entered;
    int rc;

    if (!image->used)
        return 0;
    rc = container_join(task->plugin->share->holder, image->entrypoint, image->workdir, &entered,
                        err);
    task->inside = entered;
    if (rc == 0) {
        repair_tmpdir(task);
        avoid_pmix_file(task);
    }
    return rc < 0 ? error_prefix(err, "%s", task->facts.node) : 0;
}
