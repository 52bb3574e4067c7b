/* SPDX-License-Identifier: Apache-2.0 */
/* srun, sbatch and salloc: reject what cannot work before anything is queued, and tell the nodes
 * what only the client knows. Runs as the user. */
#include "client.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "controller.h"
#include "handoff.h"
#include "lib/contract.h"
#include "lib/token.h"
#include "report.h"

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
    unsetenv(CONTRACT_MARK_CLIENT);
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

static void write_handoff(struct plugin *plugin, unsigned overrides)
{
    struct handoff handoff = {.contract = CONTRACT_VERSION, .overrides = overrides};
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
    handoff_format(&handoff, HANDOFF_CLIENT, text);
    setenv(CONTRACT_MARK_CLIENT, text, 1);
    unsetenv(HANDOFF_STEP);
    /* Left over from the enclosing step if this srun runs inside one. */
    if (getenv("SLURM_STEP_ID"))
        unsetenv("SLURM_STEP_RESV_PORTS");
}

/* All components of a het job must be told the same, and the handoff is read before the step
 * exists. Outside a job, this is the only step. */
static void write_het_handoff(const struct plugin *plugin, const struct request *request)
{
    struct handoff handoff = {.port = 0};
    const char *job = getenv("SLURM_JOB_ID");
    char text[HANDOFF_TEXT];

    if (!job || !plugin->settings.image.used || !client_is_het(request))
        return;
    handoff.start = controller_job_start((uint32_t)strtoul(job, NULL, 10));
    handoff_format(&handoff, HANDOFF_OF_STEP, text);
    setenv(HANDOFF_STEP, text, 1);
}

/* sbatch has packed the options of the first component of a het job for its steps by the time it
 * reads those of the others. srun and salloc read all of them first, and the last value counts. As
 * sbatch reads the command line again for each component, only the values that result are compared.
 */
static int check_component(struct plugin *plugin, struct error *err)
{
    if (client_program() != PROGRAM_SBATCH || plugin->config.off & PART_ALL)
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

int client_init_post_opt(struct plugin *plugin, spank_t spank, struct error *err)
{
    struct settings *settings = &plugin->settings;
    struct request request;
    struct counts counts;
    bool complete; /* later components of a het job may change the options */

    (void)spank;
    plugin->within_job = getenv("SLURM_JOB_ID") || client_has_option(plugin, "--jobid");
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
    client_request(plugin, false, &request);
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
    if (client_image(plugin, err))
        return -1;
    complete = plugin->components >= request.count;
    if (settings->check && !complete)
        return 0;
    if (settings->check)
        client_request(plugin, true, &request);
    client_counts(&request, &counts);
    if (settings->check) {
        int rc = report_check(stdout, plugin_version_text(), plugin_slurm_text(), settings,
                              &plugin->config, &counts);

        bool too_large = client_print_plan(plugin, &counts);

        report_verdict(stdout, rc, too_large, settings, &counts);
        client_leave(rc);
    }
    if (!(plugin->config.off & PART_CHECKS) && complete && check_counts(settings, &counts, err)) {
        client_advise_inherited(plugin, &request, err);
        return -1;
    }
    if (!(plugin->config.off & PART_CHECKS) && !plugin->within_job && !client_is_het(&request))
        client_warn_memory(plugin, &counts);
    if (spank_context() == S_CTX_ALLOCATOR)
        setenv(CONTRACT_MARK_JOB, "1", 1);
    if (spank_context() == S_CTX_LOCAL) {
        struct request inside;

        /* Options that srun inherits from the job bind the step like its own options. */
        client_request(plugin, true, &inside);
        write_handoff(plugin, inside.overrides);
        write_het_handoff(plugin, &request);
    }
    return 0;
}
