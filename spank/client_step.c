/* SPDX-License-Identifier: Apache-2.0 */
/* srun, when the step exists: check its counts, test its nodes, choose its port. */
#include "client.h"

#include <slurm/slurm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller.h"
#include "handoff.h"
#include "lib/port.h"
#include "preflight.h"
#include "rendezvous_port.h"

enum { PORT_ATTEMPTS = 16 };

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
    handoff_format(&handoff, HANDOFF_OF_STEP, text);
    setenv(HANDOFF_STEP, text, 1);
}

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
    client_request(plugin, true, &request);
    if (request.interactive)
        return 0;
    if (plugin->failed)
        return error_set(err, "%s", plugin->failure.text);
    if (client_is_het(&request))
        return 0;
    if (!(plugin->config.off & PART_CHECKS) && check_step(plugin, spank, &request, err)) {
        client_advise_inherited(plugin, &request, err);
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

    handoff_format(&handoff, HANDOFF_OF_STEP, text);
    if (!plugin->within_job && spank_get_item(spank, S_JOB_ID, &job) == ESPANK_SUCCESS &&
        controller_fail_job(job) == 0)
        client_leave(1);
    return setenv(HANDOFF_STEP, text, 1);
}
