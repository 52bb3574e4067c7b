/* SPDX-License-Identifier: Apache-2.0 */
/* srun, sbatch and salloc: reject what cannot work before anything is queued, and tell the nodes
 * what only the client knows. Runs as the user. */
#include "plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pwd.h>
#include <slurm/slurm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "advice.h"
#include "checks.h"
#include "lib/contract.h"
#include "controller.h"
#include "lib/file.h"
#include "image.h"
#include "handoff.h"
#include "lib/port.h"
#include "preflight.h"
#include "rendezvous_port.h"
#include "report.h"
#include "request.h"
#include "container/squashfs.h"
#include "lib/token.h"

extern char **environ;

enum { COMMAND_LINE_MAX = 1 << 20, WORDS_MAX = 8192, SCRIPT_MAX = 1 << 18, PORT_ATTEMPTS = 16 };

static enum program this_program(void)
{
    if (spank_context() == S_CTX_LOCAL)
        return PROGRAM_SRUN;
    return strstr(program_invocation_short_name, "alloc") ? PROGRAM_SALLOC : PROGRAM_SBATCH;
}

/* Read all of a regular file of up to 'max' bytes, NUL-terminated; NULL if it cannot be read. A
 * pipe is not read: its contents are meant for another reader. */
static char *read_whole(const char *path, size_t max, bool regular, size_t *size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    char *text = NULL;
    ssize_t got;

    *size = 0;
    if (fd < 0)
        return NULL;
    if (!regular || (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)))
        text = malloc(max + 1);
    if (!text) {
        close(fd);
        return NULL;
    }
    got = file_read_text_fd(fd, text, max + 1);
    *size = got > 0 ? (size_t)got : 0;
    return text;
}

/* The index at which getopt stopped, which the program's own parsing left in optind. A het job's
 * command line is parsed in pieces, so optind is meaningless there. */
static int words_limit(int argc, char *const *argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], ":") == 0)
            return argc;
    return optind > 0 && optind <= argc ? optind : argc;
}

/* The script and its arguments. */
static void read_script(struct request *request, int count, char *const *words)
{
    size_t size;
    char *text = read_whole(words[0], SCRIPT_MAX, true, &size);

    if (text) {
        request_script(request, text, size);
        request_script_words(request, text, count - 1, words + 1);
    }
    free(text);
}

/* Read this program's command line; the words point into 'line', which the caller frees. Returns
 * their number. */
static int read_words(char *words[WORDS_MAX], char **line)
{
    size_t size;
    int argc = 0;

    *line = read_whole("/proc/self/cmdline", COMMAND_LINE_MAX, false, &size);
    for (char *word = *line; word && word < *line + size && argc < WORDS_MAX;
         word += strlen(word) + 1)
        words[argc++] = word;
    return argc;
}

/* Is this long option, of Slurm or of another plugin, on the command line? */
static bool is_given(const char *option)
{
    char *words[WORDS_MAX], *line;
    int argc = read_words(words, &line), limit = words_limit(argc, words);
    size_t length = strlen(option);
    bool found = false;

    /* The program and its own options follow the options. */
    for (int i = 1; i < limit && !found && strcmp(words[i], "--") != 0; i++)
        found = strncmp(words[i], option, length) == 0 &&
                (words[i][length] == '=' || words[i][length] == '\0');
    free(line);
    return found;
}

/* Collect what the command line, the script and variables request. Outside an allocation, variables
 * count as explicit options; inside one they describe the allocation, which a step need not use in
 * full. */
static void read_request(struct request *request, bool inside)
{
    enum program program = this_program();
    char *words[WORDS_MAX], *line;
    int argc = read_words(words, &line);

    request_init(request, program);
    if (program == PROGRAM_SBATCH && argc > 0) {
        struct request probe;
        int script;

        request_init(&probe, program);
        script = request_arguments(&probe, argc, words, words_limit(argc, words));
        if (script < argc && !probe.wrapped)
            read_script(request, argc - script, words + script);
    }
    if (program != PROGRAM_SRUN || inside || !getenv("SLURM_JOB_ID"))
        request_environment(request, environ);
    if (argc > 0)
        request_arguments(request, argc, words, words_limit(argc, words));
    free(line);
}

static void request_counts(const struct request *request, struct counts *counts)
{
    const char *text = getenv("MEGATRON_SPARES");
    long spares = text && request->program != PROGRAM_SRUN ? strtol(text, NULL, 10) : 0;

    counts->tasks = request_tasks(request);
    counts->nodes = request_nodes(request);
    counts->tasks_per_node = request_tasks_per_node(request);
    counts->gpus_per_node = request_gpus_per_node(request);
    counts->components = request->count > 1 ? request->count : 0;
    for (size_t i = 0; i < counts->components; i++) {
        counts->component[i].tasks_per_node = request_component_tasks_per_node(request, i);
        counts->component[i].gpus_per_node = request_component_gpus_per_node(request, i);
    }
    /* The steps of the job will leave out this many nodes. */
    if (spares > 0 && counts->nodes > spares && counts->tasks_per_node > 0 && counts->tasks > 0) {
        counts->nodes -= spares;
        counts->tasks = counts->nodes * counts->tasks_per_node;
    }
}

/* A task's environment contains the contract of its own step. A step or job that is started from
 * there must not mistake those variables for the user's. */
static void drop_contract(void)
{
    const char *exported;
    char copy[1024], *rest = copy, *name;

    if (!getenv(contract_name(CONTRACT_CONTRACT)))
        return;
    exported = getenv(contract_name(CONTRACT_EXPORTED));
    snprintf(copy, sizeof(copy), "%s", exported ? exported : "");
    while ((name = strsep(&rest, ",")))
        if (name[0])
            unsetenv(name);
    for (int i = 0; i < CONTRACT_COUNT; i++)
        unsetenv(contract_name((enum contract_variable)i));
}

static void drop_marks(void)
{
    unsetenv(CONTRACT_MARK_JOB);
    unsetenv(CONTRACT_MARK_STEP);
}

void client_leave(int rc)
{
    fflush(stdout);
    fflush(stderr);
    _exit(rc);
}

void client_list_models(void)
{
    preset_print(stdout);
    client_leave(0);
}

/* With --export=NONE, which a job passes on to its steps, tasks have no HOME; here it can be looked
 * up. Words of a handoff are separated by spaces. */
static void find_home(char *home, size_t size)
{
    const struct passwd *account = getenv("HOME") ? NULL : getpwuid(getuid());
    const char *found = account ? account->pw_dir : getenv("HOME");

    if (found && found[0] == '/' && !strchr(found, ' ') && strlen(found) < size)
        strcpy(home, found);
}

static void write_handoff(struct plugin *plugin, unsigned wishes)
{
    struct handoff handoff = {.contract = CONTRACT_VERSION, .wishes = wishes};
    char text[HANDOFF_TEXT];
    const char *version =
        plugin->config.client_version ? plugin->config.client_version : plugin_version_text();

    snprintf(handoff.version, sizeof(handoff.version), "%s", version);
    snprintf(handoff.slurm, sizeof(handoff.slurm), "%s", plugin_slurm_text());
    if (getrandom(&handoff.mark, sizeof(handoff.mark), 0) == sizeof(handoff.mark))
        handoff.mark &= INT64_MAX;
    token_create(handoff.secret); /* without it, ranks recognize each other by rank and size only */
    if (plugin->settings.image.used)
        find_home(handoff.home, sizeof(handoff.home));
    handoff_format_client(&handoff, text);
    setenv(CONTRACT_MARK_STEP, text, 1);
    unsetenv(HANDOFF_STEP);
    /* Left over from the enclosing step if this srun runs inside one. */
    if (getenv("SLURM_STEP_ID"))
        unsetenv("SLURM_STEP_RESV_PORTS");
}

/* --- images --------------------------------------------------------------------------------- */

/* Pyxis starts containers too; only one of the two may do so. */
static bool pyxis_has_image(void)
{
    /* The second variable passes an option of the job on to its steps. */
    return getenv("PYXIS_CONTAINER_IMAGE") || getenv("_SLURM_SPANK_OPTION_pyxis_container_image") ||
           is_given("--container-image");
}

static void say_import(void *argument, const char *line)
{
    (void)argument;
    slurm_spank_log("megatron: %s", line);
}

static void warn_image_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), reason = errno;
    struct error why;

    if (fd < 0 && reason == ENOENT)
        plugin_warn("the image %s does not exist on this host; the nodes must have it", path);
    else if (fd < 0)
        plugin_warn("cannot read the image %s on this host: %s; check that "
                    "the nodes can",
                    path, strerror(reason));
    else if (squashfs_check(fd, path, NULL, &why) < 0)
        plugin_warn("on this host, %s; the nodes will reject such a file", why.text);
    if (fd >= 0)
        close(fd);
}

/* What is missing here may still be available on the nodes, which check again. */
static void warn_missing(const struct image_settings *image)
{
    if (image->reference.scheme == IMAGE_FILE)
        warn_image_file(image->reference.text);
    for (size_t i = 0; i < image->mounts.count; i++) {
        const char *source = image->mounts.items[i].source;

        if (access(source, F_OK) == 0)
            continue;
        if (errno == ENOENT)
            plugin_warn("the mount source %s does not exist on this host; the "
                        "nodes must have it",
                        source);
        else
            plugin_warn("cannot access the mount source %s on this host: "
                        "%s; check that the nodes can",
                        source, strerror(errno));
    }
}

static int prepare_image(struct plugin *plugin, struct error *err)
{
    const struct image_settings *image = &plugin->settings.image;

    if (!image->used)
        return 0;
    if (pyxis_has_image())
        return error_set(err,
                         "--megatron-image and --container-image cannot be used together; drop one "
                         "of them (or use --megatron-image=none)");
    if (plugin->settings.check)
        return 0;
    warn_missing(image);
    if (image->reference.scheme != IMAGE_DOCKERD && image->reference.scheme != IMAGE_PODMAN)
        return 0;
    return image_import_from_daemon(image, &plugin->config, (const char *const *)environ,
                                    say_import, err);
}

/* --- plan ----------------------------------------------------------------------------------- */

/* The user's kind of nodes, or the administrator's. 'source' says where it is set. */
static const char *node_kind(const struct plugin *plugin, const char **source)
{
    const char *kind = getenv("MEGATRON_NODE_KIND");

    *source = kind && kind[0] ? "MEGATRON_NODE_KIND" : "plugstack.conf: node_kind";
    return kind && kind[0] ? kind : plugin->config.node_kind;
}

/* A job that cannot fit should not wait in a queue for that. It is only a warning: options of the
 * training program, which are not known here, change the memory that it needs. */
static void warn_memory(const struct plugin *plugin, const struct counts *counts)
{
    const struct settings *settings = &plugin->settings;
    const char *source, *kind = node_kind(plugin, &source);
    struct advice advice;

    advice_plan(settings, counts, kind, &advice);
    if (advice.bad_nodes)
        plugin_warn("%s=%s: the job is not planned: %s", source, kind, advice.problem);
    if (!advice.known || advice.fits)
        return;
    plugin_warn("%s with tp %lld, pp %lld, cp %lld: %s", settings->model->name,
                (long long)settings->layout.tp, (long long)settings->layout.pp,
                (long long)settings->layout.cp, advice.problem);
    if (advice.better.tp > 0)
        slurm_spank_log("megatron: --megatron-tp=%lld --megatron-pp=%lld --megatron-cp=%lld fits",
                        (long long)advice.better.tp, (long long)advice.better.pp,
                        (long long)advice.better.cp);
}

/* For --megatron-check. Returns whether the model is known not to fit. */
static bool print_plan(const struct plugin *plugin, const struct counts *counts)
{
    const char *source, *kind = node_kind(plugin, &source);
    struct advice advice;
    char *rest = advice.plan, *line;

    advice_plan(&plugin->settings, counts, kind, &advice);
    if (!advice.fits && advice.problem[0])
        printf("  plan         %s%s\n", advice.known ? "" : "not made: ", advice.problem);
    if (!advice.known)
        return false;
    if (!advice.fits && advice.better.tp > 0)
        printf("  plan         --megatron-tp=%lld --megatron-pp=%lld --megatron-cp=%lld fits\n",
               (long long)advice.better.tp, (long long)advice.better.pp,
               (long long)advice.better.cp);
    while (advice.fits && (line = strsep(&rest, "\n")))
        if (line[0])
            printf("  plan         %s\n", line);
    return !advice.fits;
}

/* The client of a het job component only knows that component's counts; tasks are checked on the
 * nodes. */
static bool is_het(const struct request *request)
{
    return request->count > 1 || getenv("SLURM_HET_SIZE") || getenv("SLURM_PACK_SIZE");
}

/* All components of a het job must be told the same, and the handoff is read before the step
 * exists. Outside a job, this is the only step. */
static void write_het_handoff(const struct plugin *plugin, const struct request *request)
{
    struct handoff handoff = {.port = 0};
    const char *job = getenv("SLURM_JOB_ID");
    char text[HANDOFF_TEXT];

    if (!job || !plugin->settings.image.used || !is_het(request))
        return;
    handoff.start = controller_job_start((uint32_t)strtoul(job, NULL, 10));
    handoff_format_step(&handoff, text);
    setenv(HANDOFF_STEP, text, 1);
}

/* sbatch has packed the options of the first component of a het job for its steps by the time it
 * reads those of the others. srun and salloc read all of them first, and the last value counts. As
 * sbatch reads the command line again for each component, only the values that result are compared.
 */
static int check_component(struct plugin *plugin, struct error *err)
{
    if (this_program() != PROGRAM_SBATCH || plugin->config.off & PART_ALL)
        return 0;
    for (int i = 0; i < OPTION_COUNT; i++) {
        const char *value = plugin->settings.given[i];

        if (value && plugin->components == 1)
            settings_give(&plugin->first, (enum option_id)i, value);
        else if (value && !settings_has(&plugin->first, (enum option_id)i, value))
            return error_set(err,
                             "sbatch ignores --megatron-%s in a later component of a heterogeneous "
                             "job; give --megatron options in the first component",
                             option_table[i].name);
    }
    return 0;
}

/* What followed the # is lost, so the intended value cannot be checked, unless a later value
 * overrides it. */
static int check_script(const struct request *request, struct error *err)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (request->cut & 1U << i)
            return error_set(err,
                             "--megatron-%s in the script: sbatch ignores the rest of a line after "
                             "an unquoted #; put the %s in quotes in #SBATCH lines",
                             option_table[i].name, i == OPTION_IMAGE ? "image" : "value");
    return 0;
}

/* A step inherits the layout of its job, and not every step has ranks. */
static void advise_inherited(const struct plugin *plugin, const struct request *request,
                             struct error *err)
{
    static const enum option_id layout[] = {OPTION_TP, OPTION_PP, OPTION_CP};
    bool inherited = false;

    if (!plugin->within || request->program != PROGRAM_SRUN)
        return;
    for (size_t i = 0; i < sizeof(layout) / sizeof(layout[0]); i++) {
        if (request->own & 1U << layout[i])
            return;
        inherited |= plugin->settings.given[layout[i]] != NULL;
    }
    if (inherited)
        error_append(err, "; the layout is that of the job, from sbatch or salloc: add "
                          "--megatron-off to a step that does not train");
}

int client_init_post_opt(struct plugin *plugin, spank_t spank, struct error *err)
{
    struct settings *settings = &plugin->settings;
    struct request request;
    struct counts counts;
    bool complete; /* later components of a het job may change the options */

    (void)spank;
    plugin->within = getenv("SLURM_JOB_ID") || is_given("--jobid");
    plugin->components++;
    drop_contract();
    if (check_component(plugin, err))
        return -1;
    if (!settings_used(settings, &plugin->config)) {
        drop_marks();
        if (plugin->config.off & PART_ALL && settings_any(settings))
            plugin_warn("the plugin is switched off in plugstack.conf; "
                        "--megatron options have no effect; drop them, or ask the "
                        "administrator to remove off=all there");
        return 0;
    }
    read_request(&request, false);
    if (request.interactive) /* its shell keeps the mark of the job */
        return 0;
    drop_marks();
    if (plugin->failed)
        return error_set(err, "%s", plugin->failure.text);
    if (request.model[0]) /* it overrides sbatch's option */
        settings_give(settings, OPTION_MODEL, request.model);
    if (check_script(&request, err) || settings_resolve(settings, &plugin->config, err))
        return -1;
    if (settings->off)
        return 0;
    if (prepare_image(plugin, err))
        return -1;
    complete = plugin->components >= request.count;
    if (settings->check && !complete)
        return 0;
    if (settings->check)
        read_request(&request, true);
    request_counts(&request, &counts);
    if (settings->check) {
        int rc = report_check(stdout, plugin_version_text(), plugin_slurm_text(), settings,
                              &plugin->config, &counts);

        bool too_large = print_plan(plugin, &counts);

        report_verdict(stdout, rc, too_large, settings, &counts);
        client_leave(rc);
    }
    if (!(plugin->config.off & PART_CHECKS) && complete && check_counts(settings, &counts, err)) {
        advise_inherited(plugin, &request, err);
        return -1;
    }
    if (!(plugin->config.off & PART_CHECKS) && !plugin->within && !is_het(&request))
        warn_memory(plugin, &counts);
    if (spank_context() == S_CTX_ALLOCATOR)
        setenv(CONTRACT_MARK_JOB, "1", 1);
    if (spank_context() == S_CTX_LOCAL) {
        struct request inside;

        /* Options that srun inherits from the job bind the step like its own options. */
        read_request(&inside, true);
        write_handoff(plugin, inside.wishes);
        write_het_handoff(plugin, &request);
    }
    return 0;
}

/* --- srun, when the step exists ------------------------------------------------------------- */

static int check_step(struct plugin *plugin, spank_t spank, const struct request *request,
                      struct error *err)
{
    struct counts counts = {.tasks = 0};
    uint32_t tasks, nodes;
    const char *on_node = getenv("SLURM_GPUS_ON_NODE");

    if (spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS || tasks == 0 ||
        spank_get_item(spank, S_JOB_NNODES, &nodes) != ESPANK_SUCCESS || nodes == 0)
        return 0;
    counts.tasks = tasks;
    counts.nodes = nodes;
    counts.tasks_per_node = tasks % nodes == 0 ? (int64_t)(tasks / nodes) : REQUEST_UNKNOWN;
    counts.gpus_per_node = request_gpus_per_node(request);
    if (counts.gpus_per_node < 0 && on_node && getenv("SLURM_JOB_ID"))
        counts.gpus_per_node = strtol(on_node, NULL, 10);
    return check_counts(&plugin->settings, &counts, err);
}

static bool is_here(const struct controller_node *node)
{
    char name[256] = "";
    size_t length;

    if (gethostname(name, sizeof(name) - 1))
        return false;
    length = strcspn(name, ".");
    return strncmp(name, node->name, length + 1) == 0 ||
           (strncmp(name, node->hostname, length) == 0 &&
            (node->hostname[length] == '\0' || node->hostname[length] == '.'));
}

/* If srun runs on the node of task 0, it can choose a port that is free there. Otherwise the nodes
 * derive the port, and the node of task 0 checks that it is free. */
static int64_t choose_port(const struct plugin *plugin, uint32_t job, uint32_t step)
{
    const char *cluster = getenv("SLURM_CLUSTER_NAME"), *restarts = getenv("SLURM_RESTART_COUNT");
    struct rendezvous_step rendezvous = {
        .cluster = cluster ? cluster : "",
        .job = job,
        .step = step,
        .restarts = restarts ? (uint32_t)strtoul(restarts, NULL, 10) : 0,
        .low = plugin->config.ports.low,
        .high = plugin->config.ports.high,
    };

    for (unsigned attempt = 0; attempt < PORT_ATTEMPTS; attempt++) {
        int64_t port = rendezvous_port(&rendezvous, attempt);

        if (port_is_free(port))
            return port;
    }
    return 0;
}

static void write_step_handoff(const struct plugin *plugin, spank_t spank)
{
    struct controller_node node;
    struct handoff handoff = {.port = 0};
    char text[HANDOFF_TEXT];
    uint32_t job, step;

    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
        return;
    handoff.end = controller_job_end(job);
    if (plugin->settings.image.used)
        handoff.start = controller_job_start(job);
    if (!(plugin->config.off & PART_RENDEZVOUS) &&
        controller_first_node(job, step, NO_VAL, &node) == 0) {
        snprintf(handoff.master, sizeof(handoff.master), "%s", node.address);
        snprintf(handoff.first, sizeof(handoff.first), "%s", node.name);
        if (is_here(&node))
            handoff.port = choose_port(plugin, job, step);
    }
    handoff_format_step(&handoff, text);
    setenv(HANDOFF_STEP, text, 1);
}

/* --- preflight ------------------------------------------------------------------------------ */

static void say_preflight(void *argument, const char *line)
{
    (void)argument;
    slurm_spank_log("megatron: %s", line);
}

/* Test the nodes of the step, which exists but has no tasks yet. A test that cannot run does not
 * stop the step. */
static int test_nodes(struct plugin *plugin, spank_t spank, struct error *err)
{
    struct preflight_step step = {.srun = "/proc/self/exe"};
    char srun[4096], hosts[8000];
    ssize_t length = readlink("/proc/self/exe", srun, sizeof(srun) - 1);
    enum preflight_answer answer;
    struct error why = {0};
    uint32_t id;

    if (plugin->settings.preflight == PREFLIGHT_NONE)
        return 0;
    if (length > 0) {
        srun[length] = '\0';
        step.srun = srun;
    }
    step.hosts = hosts;
    if (spank_get_item(spank, S_JOB_ID, &step.job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &id) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &step.tasks) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_NNODES, &step.nodes) != ESPANK_SUCCESS ||
        controller_step_hosts(step.job, id, hosts, sizeof(hosts)) < 0) {
        error_set(&why, "Slurm does not name the nodes of this step; run `srun megatron preflight` "
                        "to test them");
        answer = PREFLIGHT_UNKNOWN;
    } else {
        answer = preflight_step_run(&step, plugin->settings.preflight, say_preflight, NULL, &why);
    }
    if (answer == PREFLIGHT_UNKNOWN)
        plugin_warn("the nodes are not tested: %s", why.text);
    if (answer != PREFLIGHT_SICK || plugin->config.preflight_failure == PREFLIGHT_REPORT)
        return 0;
    return error_set(err,
                     "a node failed its test, see above; leave it out with --exclude, or start "
                     "the tasks anyway with --megatron-preflight=no");
}

int client_local_user_init(struct plugin *plugin, spank_t spank, struct error *err)
{
    struct request request;

    if (!settings_used(&plugin->settings, &plugin->config) || plugin->settings.off)
        return 0;
    read_request(&request, true);
    if (request.interactive)
        return 0;
    if (plugin->failed)
        return error_set(err, "%s", plugin->failure.text);
    if (is_het(&request))
        return 0;
    if (!(plugin->config.off & PART_CHECKS) && check_step(plugin, spank, &request, err)) {
        advise_inherited(plugin, &request, err);
        return -1;
    }
    if (test_nodes(plugin, spank, err) < 0)
        return -1;
    write_step_handoff(plugin, spank);
    return 0;
}

/* The step exists by now. If srun fails here, the step is not ended, and it has no tasks that
 * scancel could end: in a job that continues, its CPUs and GPUs would be lost to all later steps.
 * So the step is launched anyway, and its tasks fail on the nodes without another message. A job of
 * srun's own ends with it. */
int client_refuse_step(const struct plugin *plugin, spank_t spank)
{
    struct handoff handoff = {.refused = 1};
    char text[HANDOFF_TEXT];
    uint32_t job;

    handoff_format_step(&handoff, text);
    if (!plugin->within && spank_get_item(spank, S_JOB_ID, &job) == ESPANK_SUCCESS &&
        controller_fail_job(job) == 0)
        client_leave(1);
    return setenv(HANDOFF_STEP, text, 1);
}
