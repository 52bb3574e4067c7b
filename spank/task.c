/* The forked task, as the user: meet the other tasks of the node, let the last one decide for all,
 * and take what was decided. This is the one place on a node that may fail. */
#include "plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "checks.h"
#include "contract.h"
#include "controller.h"
#include "deadline.h"
#include "environment.h"
#include "facts.h"
#include "grants.h"
#include "image.h"
#include "meeting.h"
#include "node.h"
#include "parse.h"
#include "place.h"
#include "report.h"
#include "request.h"
#include "start.h"

enum { MEET_SECONDS = 60, CONTROLLER_SECONDS = 8, IMAGE_MARGIN_SECONDS = 300 };
/* How long a node lets the first one speak, and its tasks the one that speaks for it. */
enum { FIRST_SECONDS = 2, REPORT_SECONDS = 5 };

struct task {
    struct plugin *plugin;
    spank_t spank;
    struct facts facts;
    struct place_notes notes;
    bool arrived; /* the others of the node count on it no more */
    bool inside;  /* it sees the image's files */
};

/* --- failing -------------------------------------------------------------------------------- */

/* Tasks that are not yet the user's program fail by themselves when they are asked to, so that the
 * step's exit code is that of a failure and not that of a signal. One request may be too early for
 * some. slurmstepd kills what is left when this task is over, see step_exit; but a het job's other
 * components can only be reached for as long as this one is there. That this task stays for a while
 * also lets its sentence come through: srun stops to listen when the step is over. */
static int ask_step_to_end(void *argument)
{
    const struct facts *facts = &((const struct task *)argument)->facts;
    struct timespec pause = {.tv_nsec = 100000000};
    int rc = 1;

    for (int i = 0; i < 4; i++) {
        if (controller_signal_step(facts->job, facts->step,
                                   facts->het && i > 0 ? SIGKILL : SIGTERM) != 0)
            break; /* it is over, or it could not be told */
        rc = 0;
        nanosleep(&pause, NULL);
        pause.tv_nsec += 200000000;
    }
    return rc;
}

/* Slurm says in two lines of its own for each task that we failed; ours says why, once. They stay
 * in slurmd's log. */
static void silence(void)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (null >= 0) {
        dup2(null, STDERR_FILENO);
        close(null);
    }
}

/* What is wrong on all nodes the first one says for all, and asks the step to end, which ends this
 * process: on a thousand nodes nobody could read it a thousand times. Of a node one task speaks,
 * and none of the others leaves before it did: srun may end the step then (-K). Meanwhile they need
 * a name of their own, since proctrack/linuxproc signals nothing that is called slurmstepd. */
static void await_turn(const struct task *task, bool speaks)
{
    const struct timespec pause = {.tv_sec = FIRST_SECONDS};
    char name[17] = "";

    prctl(PR_GET_NAME, name);
    prctl(PR_SET_NAME, "megatron-wait");
    if (!speaks)
        share_report_wait(task->plugin->share, FIRST_SECONDS + REPORT_SECONDS);
    else if (task->facts.nodes > 1 && task->facts.node_rank > 0)
        nanosleep(&pause, NULL);
    prctl(PR_SET_NAME, name);
}

/* Say it once for the node, let nobody wait for this task, end the step on all nodes, fail. */
static int fail(struct task *task, const struct error *err)
{
    struct share *share = task->plugin->share;
    bool speaks = !share || share_claim_report(share);

    if (share && speaks && !task->arrived) {
        share->error = *err;
        share_finish(share, SHARE_FAILED);
    }
    /* An empty sentence was said by another node, which also ends the step. */
    if (err->text[0])
        await_turn(task, speaks);
    if (!speaks || !err->text[0]) {
        if (share && speaks)
            share_reported(share);
        silence();
        return -1;
    }
    /* What this node asks of the others is not for itself. */
    signal(SIGTERM, SIG_IGN);
    slurm_error("megatron: %s", err->text);
    if (share)
        share_reported(share);
    if (task->facts.nodes > 1) {
        if (share)
            share->end_step = 1;
        /* The image has no socket of MUNGE's; slurmstepd ends the step, see step_exit. */
        if (!task->inside && with_deadline(ask_step_to_end, task, CONTROLLER_SECONDS) != 0 &&
            !share)
            slurm_error("megatron: the other nodes of the step could not be told; use scancel");
    }
    silence();
    return -1;
}

/* --- deciding for the node ------------------------------------------------------------------ */

static void warn(const struct task *task, const char *text)
{
    slurm_spank_log("megatron: %s: %s", task->facts.node, text);
}

static int check_versions(const struct task *task, struct error *err)
{
    const struct note *note = &task->facts.note;
    char text[256];

    if (!note->version[0] ||
        (strcmp(note->version, plugin_version_text()) == 0 && note->contract == CONTRACT_VERSION))
        return 0;
    snprintf(text, sizeof(text),
             "srun has version %s of the plugin (for Slurm %s), this node %s (for Slurm %s)",
             note->version, note->slurm, plugin_version_text(), plugin_slurm_text());
    if (note->contract != CONTRACT_VERSION)
        return error_set(err, "%s, with different contracts; install one version everywhere", text);
    warn(task, text);
    return 0;
}

/* Say what will go wrong between NCCL and the fabric: a silent fallback to TCP, memory that cannot
 * be locked. It is the same on most nodes, and a hundred lines would say no more than one. */
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
    /* In a container the image's libraries count, which are not to be seen from here. */
    if (plugin->settings.image.used)
        fabric.libfabric = fabric.efa_provider = fabric.nccl_plugin = fabric.libibverbs = 1;
    for (size_t i = 0, count = node_fabric_warnings(&fabric, sentences); i < count; i++)
        warn(task, sentences[i].text);
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

/* Say the lines of 'rest', which is cut up. */
static void say_notes(const struct task *task, char *rest)
{
    char *line;

    while ((line = strsep(&rest, "\n")))
        if (line[0])
            warn(task, line);
}

/* Counts may fit and groups be torn apart all the same: --distribution says which rank is where. */
static int check_groups(const struct share *share, int64_t tp, struct error *err)
{
    for (uint32_t i = 0; i < share->tasks; i++) {
        int64_t group = share->task[i].found.rank / tp, here = 0;

        for (uint32_t k = 0; k < share->tasks; k++)
            here += share->task[k].found.rank / tp == group;
        if (here != tp)
            return error_set(err,
                             "%" PRId64 " of the %" PRId64
                             " ranks of the tensor-parallel group of rank %" PRIu32
                             " are on this node; use --distribution=block and --ntasks-per-node",
                             here, tp, share->task[i].found.rank);
    }
    return 0;
}

static int decide(struct task *task, struct error *err)
{
    struct plugin *plugin = task->plugin;
    struct settings *settings = &plugin->settings;
    const struct facts *facts = &task->facts;
    char text[32];
    struct place_input input = {
        .settings = settings,
        .config = &plugin->config,
        .node = facts->node,
        .wishes = facts->note.wishes,
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
        .gpus_per_node = (int64_t)grants_count(plugin->share, input.gpus_on_node),
    };

    if (!(plugin->config.off & PART_CHECKS) &&
        (check_counts(settings, &counts, err) ||
         (counts.gpus_per_node > 0 && counts.tasks_per_node > 1 &&
          check_groups(plugin->share, settings->layout.tp, err))))
        return error_prefix(err, "%s", facts->node);
    if (!(plugin->config.off & PART_RENDEZVOUS)) {
        if (meeting_find(task->spank, facts, &plugin->config, plugin->share, err))
            return -1;
        if (!plugin->share->master[0])
            warn(task, "the node of rank 0 could not be found out; export MASTER_ADDR");
    }
    if (place_tasks(plugin->share, &input, &task->notes, err))
        return error_prefix(err, "%s", facts->node);
    check_fabric(task);
    say_notes(task, task->notes.warnings);
    /* Who lists CPUs wants to know which of them there are not; that it is so on one node will do.
     */
    if (settings->verbose ||
        (settings->bind[0] >= '0' && settings->bind[0] <= '9' && facts->node_rank == 0))
        say_notes(task, task->notes.text);
    if (settings->show)
        show(task);
    return 0;
}

/* --- the container --------------------------------------------------------------------------- */

static void say_image(void *argument, const char *line)
{
    warn(argument, line);
}

/* The CPUs of all tasks: an import may use them before the tasks do. */
static int use_all_cpus(const struct share *share)
{
    struct cpuset all = share->task[0].found.cpus;
    struct error err;

    for (uint32_t i = 1; i < share->tasks; i++)
        cpuset_unite(&all, &share->task[i].found.cpus);
    return cpuset_bind_thread(&all, &err) ? 1 : (int)cpuset_count(&all);
}

/* GPUs of all tasks of the node, as NVIDIA's hook takes them; by Slurm's numbers where the driver
 * does not know them. */
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
        share_list_add(list, "%d", gpu);
}

/* Set while there is something to undo before this process may end, and when it is to end. */
static stop_flag undoing, asked_to_end;

static void on_terminate(int number)
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
        .home = facts->note.home,
        .node = facts->node,
        .job = job,
        .step = step,
        .gpus = gpus,
        .nodes = (int)facts->nodes,
        .lifetime = task->plugin->lifetime[0],
        .say = say_image,
        .argument = task,
        .stop = &asked_to_end,
        .places = &share->places,
    };
    int rc;

    if (spank_get_item(task->spank, S_JOB_ENV, &environment) != ESPANK_SUCCESS)
        return error_set(err, "Slurm does not show the task's environment");
    node.environment = environment;
    /* Numbers of jobs come again; the times they began, and srun's mark, do not. */
    snprintf(step, sizeof(step), "%.200s-%u-%u-%u-%" PRIx64, facts->cluster, facts->job,
             facts->step, facts->restarts, (uint64_t)facts->note.mark);
    if (facts->note.start > 0)
        snprintf(job, sizeof(job), "%.200s-%u-%u-%" PRId64, facts->cluster, facts->job,
                 facts->restarts, facts->note.start);
    else
        snprintf(job, sizeof(job), "%s", step);
    list_gpus(share, gpus);
    for (uint32_t i = 0; i < share->tasks; i++)
        node.imports |= share->task[i].found.rank == 0;
    node.processors = use_all_cpus(share);
    undoing = 1;
    rc = image_start(&node, &holder, err);
    undoing = 0;
    /* Who wants the step to end has said why. */
    if (asked_to_end)
        _exit(1);
    share->holder = holder;
    /* What binds the task comes later; without it, Slurm's own binding is to stay. */
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

/* One task of the node starts the container, all wait for it and take its environment. */
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
        return -1;
    return share->image_state == SHARE_FAILED ? error_set(err, "%s", share->error.text) : 0;
}

/* An import may take an hour, in which scancel and the failure of another node must end the step;
 * and proctrack/linuxproc signals nothing that is called slurmstepd. */
static int open_container(struct task *task, struct error *err)
{
    char name[17] = "";
    int rc;

    if (!task->plugin->settings.image.used)
        return 0;
    prctl(PR_GET_NAME, name);
    prctl(PR_SET_NAME, "megatron-image");
    rc = wait_for_container(task, err);
    prctl(PR_SET_NAME, name);
    if (rc)
        return rc;
    return container_environment(task->plugin->share->holder, take_variable, task, err);
}

/* The last thing before the user's program: what is opened from here on is the image's. */
static int enter_container(struct task *task, struct error *err)
{
    const struct image_settings *image = &task->plugin->settings.image;
    int entered, rc;

    if (!image->used)
        return 0;
    rc = container_join(task->plugin->share->holder, image->entrypoint, image->workdir, &entered,
                        err);
    task->inside = entered;
    return rc < 0 ? error_prefix(err, "%s", task->facts.node) : 0;
}

/* --- each task ------------------------------------------------------------------------------ */

static void bind_memory(const struct task *task, const struct share_result *result)
{
    unsigned long mask[SHARE_NUMA_MAX / (8 * sizeof(unsigned long))];

    memcpy(mask, result->numa, sizeof(mask));
    if (syscall(SYS_set_mempolicy, MPOL_BIND, mask, SHARE_NUMA_MAX + 1) == 0)
        return;
    /* Not fatal: a kernel without NUMA, or memory that a cgroup does not grant. */
    if (task->plugin->settings.verbose &&
        __atomic_exchange_n(&task->plugin->share->unbound, 1, __ATOMIC_RELAXED) == 0)
        slurm_spank_log("megatron: %s: memory is left unbound: %s", task->facts.node,
                        strerror(errno));
}

/* That another layout counts than the one that was asked for and checked is said in any case. */
static void say_left(const struct task *task, const char *left)
{
    static const enum contract_variable layout[] = {CONTRACT_TP, CONTRACT_PP, CONTRACT_CP,
                                                    CONTRACT_MODEL};
    bool other = false;

    for (size_t i = 0; i < sizeof(layout) / sizeof(layout[0]); i++)
        other |= strstr(left, contract_name(layout[i])) != NULL;
    if (other && task->facts.node_rank == 0)
        slurm_spank_log("megatron: %s: the variables of the job count, not the options that were "
                        "checked: %s; unset them",
                        task->facts.node, left);
    else if (left[0] && task->plugin->settings.verbose)
        slurm_spank_log("megatron: %s: left as exported: %s", task->facts.node, left);
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
            !(task->facts.note.wishes & WISH_MEM_BIND))
            bind_memory(task, result);
    }
    /* The data-parallel size, which the one that decided knows, follows from the world's. */
    plugin->settings.layout.dp =
        task->facts.world /
        (plugin->settings.layout.tp * plugin->settings.layout.pp * plugin->settings.layout.cp);
    if (environment_export(task->spank, &task->facts, &plugin->settings, &plugin->config,
                           plugin->share, left, err))
        return -1;
    if (task->facts.local == 0)
        say_left(task, left);
    return 0;
}

/* A list that is too long must not look like none; no GPU has that name. */
static void read_list(const struct task *task, const char *name, char list[SHARE_LIST])
{
    if (spank_getenv(task->spank, name, list, SHARE_LIST) == ESPANK_NOSPACE)
        strcpy(list, "?");
    else
        facts_variable(task->spank, name, list, SHARE_LIST);
}

static int find_own(struct task *task, struct error *err)
{
    struct share *share = task->plugin->share;
    struct share_found *found = &share->task[task->facts.local].found;

    if (task->facts.local >= share->tasks)
        return error_set(err, "Slurm counts this task as %u of %u", task->facts.local,
                         share->tasks);
    found->rank = task->facts.rank;
    if (cpuset_of_thread(&found->cpus, err))
        return -1;
    read_list(task, "SLURM_STEP_GPUS", found->gpus);
    read_list(task, "CUDA_VISIBLE_DEVICES", found->visible);
    found->confined = node_reachable_gpus(found->reach, sizeof(found->reach));
    return 0;
}

/* Between share_arrive and share_finish nobody returns early: the others would wait. */
static int meet(struct task *task, struct error *err)
{
    struct share *share = task->plugin->share;

    task->arrived = true;
    if (share_arrive(share, task->facts.local)) {
        int rc = decide(task, &share->error);

        share->image_leader = getpid();
        share_finish(share, rc ? SHARE_FAILED : SHARE_DONE);
    } else if (share_wait(share, MEET_SECONDS, err))
        return -1;
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
    if (!plugin->failed && find_own(task, &err))
        plugin_defer(plugin, &err);
    if (!plugin->failed && task->facts.note.refused) {
        err.text[0] = '\0';
        plugin_defer(plugin, &err);
    }
    if (plugin->failed)
        return fail(task, &plugin->failure);
    if (meet(task, &err) || open_container(task, &err) || apply(task, &err) ||
        enter_container(task, &err))
        return fail(task, &err);
    return 0;
}

int task_init(struct plugin *plugin, spank_t spank)
{
    const struct sigaction ending = {.sa_handler = on_terminate};
    struct sigaction usual;
    sigset_t terminate, mask;
    struct task *task;
    int rc;

    if (!plugin->used)
        return 0;
    task = calloc(1, sizeof(*task));
    if (!task) {
        slurm_error("megatron: out of memory");
        return -1;
    }
    task->plugin = plugin;
    task->spank = spank;
    /* When another node fails, this one is asked to fail too. */
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    sigaction(SIGTERM, &ending, &usual);
    sigprocmask(SIG_UNBLOCK, &terminate, &mask);
    rc = run_task_init(task);
    if (rc == 0) {
        sigprocmask(SIG_SETMASK, &mask, NULL);
        sigaction(SIGTERM, &usual, NULL);
    }
    free(task);
    return rc;
}
