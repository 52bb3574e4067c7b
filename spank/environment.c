/* SPDX-License-Identifier: Apache-2.0 */
#include "environment.h"

#include <inttypes.h>
#include <slurm/slurm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/contract.h"
#include "lib/parse.h"

struct exporter {
    spank_t spank;
    bool failed;
    char exported[ENVIRONMENT_LIST]; /* names other than MEGATRON_* */
    char *left;
};

/* Set a fact: it overrides what the user exported (a constant could not be right for all ranks). */
static void set_fact(struct exporter *exporter, enum contract_variable variable, const char *value)
{
    if (spank_setenv(exporter->spank, contract_name(variable), value, 1) != ESPANK_SUCCESS)
        exporter->failed = true;
}

static void set_number(struct exporter *exporter, enum contract_variable variable, int64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, value);
    set_fact(exporter, variable, text);
}

/* Set a choice: the user's own value takes precedence. */
static bool set_choice(struct exporter *exporter, const char *name, const char *value)
{
    char text[SHARE_LIST];
    spank_err_t rc = spank_setenv(exporter->spank, name, value, 0);

    if (rc == ESPANK_SUCCESS)
        return true;
    if (spank_getenv(exporter->spank, name, text, sizeof(text)) != ESPANK_SUCCESS)
        exporter->failed = true;
    else if (strcmp(text, value) != 0)
        list_text_add(exporter->left, ENVIRONMENT_LIST, ",", "%s", name);
    return false;
}

static void set_contract_choice(struct exporter *exporter, enum contract_variable variable,
                                const char *value)
{
    set_choice(exporter, contract_name(variable), value);
}

static void set_contract_number(struct exporter *exporter, enum contract_variable variable,
                                int64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, value);
    set_contract_choice(exporter, variable, text);
}

/* Variables of other programs. The names of those that we set are recorded, so that a nested srun
 * can tell them from the user's. */
static void set_other(struct exporter *exporter, const char *name, const char *value)
{
    if (value[0] && set_choice(exporter, name, value))
        list_text_add(exporter->exported, ENVIRONMENT_LIST, ",", "%s", name);
}

static void set_identity(struct exporter *exporter, const struct facts *facts)
{
    set_number(exporter, CONTRACT_CONTRACT, CONTRACT_VERSION);
    set_number(exporter, CONTRACT_RANK, facts->rank);
    set_number(exporter, CONTRACT_WORLD_SIZE, facts->world);
    set_number(exporter, CONTRACT_LOCAL_RANK, facts->local);
    set_number(exporter, CONTRACT_LOCAL_SIZE, facts->local_size);
    set_number(exporter, CONTRACT_NODE_RANK, facts->node_rank);
    set_number(exporter, CONTRACT_NODES, facts->nodes);
    set_number(exporter, CONTRACT_RESTARTS, facts->restarts);
    if (facts->handoff.end > 0)
        set_number(exporter, CONTRACT_JOB_END, facts->handoff.end);
}

static void set_layout(struct exporter *exporter, const struct settings *settings)
{
    set_contract_number(exporter, CONTRACT_TP, settings->layout.tp);
    set_contract_number(exporter, CONTRACT_PP, settings->layout.pp);
    set_contract_number(exporter, CONTRACT_CP, settings->layout.cp);
    if (settings->layout.dp > 0)
        set_contract_number(exporter, CONTRACT_DP, settings->layout.dp);
    if (settings->model)
        set_contract_choice(exporter, CONTRACT_MODEL, settings->model->name);
}

/* Like set_contract_choice and set_other, but replace an empty value. */
static void set_address(struct exporter *exporter, enum contract_variable variable,
                        const char *name, const char *value)
{
    const char *const names[] = {contract_name(variable), name};
    char text[8];

    for (size_t i = 0; i < 2; i++)
        if (spank_getenv(exporter->spank, names[i], text, sizeof(text)) == ESPANK_SUCCESS &&
            text[0] == '\0')
            spank_unsetenv(exporter->spank, names[i]);
    set_contract_choice(exporter, variable, value);
    set_other(exporter, name, value);
}

static void set_rendezvous(struct exporter *exporter, const struct facts *facts,
                           const struct share *share)
{
    char text[32];

    if (facts->handoff.secret[0])
        set_fact(exporter, CONTRACT_SECRET, facts->handoff.secret);
    if (share->master[0])
        set_address(exporter, CONTRACT_MASTER_ADDR, "MASTER_ADDR", share->master);
    if (share->port > 0) {
        snprintf(text, sizeof(text), "%" PRId64, share->port);
        set_address(exporter, CONTRACT_MASTER_PORT, "MASTER_PORT", text);
    }
}

static void set_placement(struct exporter *exporter, const struct share_result *result)
{
    char text[2 * SHARE_LIST];

    if (result->gpus[0])
        set_fact(exporter, CONTRACT_GPU, result->gpus);
    if (result->pci[0])
        set_fact(exporter, CONTRACT_GPU_PCI, result->pci);
    if (result->nics[0])
        set_contract_choice(exporter, CONTRACT_NICS, result->nics);
    cpuset_format(&result->cpus, text, sizeof(text));
    set_fact(exporter, CONTRACT_CPUS, text);
    share_format_numa(result, text, sizeof(text));
    if (text[0])
        set_fact(exporter, CONTRACT_NUMA, text);
}

/* CUDA numbers GPUs as we do only in PCI order, and only if the list names the same GPUs in that
 * order. */
static void set_gpus(struct exporter *exporter, const struct share_result *result)
{
    char order[32];

    if (!result->gpus[0])
        return;
    set_other(exporter, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    if (result->visible[0] &&
        strcmp(facts_variable(exporter->spank, "CUDA_DEVICE_ORDER", order, sizeof(order)),
               "PCI_BUS_ID") == 0 &&
        spank_setenv(exporter->spank, "CUDA_VISIBLE_DEVICES", result->visible, 1) != ESPANK_SUCCESS)
        exporter->failed = true;
}

int environment_export(spank_t spank, const struct facts *facts, const struct settings *settings,
                       const struct config *config, const struct share *share,
                       char left[ENVIRONMENT_LIST], struct error *err)
{
    const struct share_result *result = &share->task[facts->local].result;
    struct exporter exporter = {.spank = spank, .left = left};

    left[0] = '\0';
    spank_unsetenv(spank, CONTRACT_MARK_CLIENT);
    spank_unsetenv(spank, HANDOFF_STEP);
    set_identity(&exporter, facts);
    set_layout(&exporter, settings);
    set_rendezvous(&exporter, facts, share);
    set_placement(&exporter, result);
    set_gpus(&exporter, result);
    if (!(config->off & PART_NICS)) {
        set_other(&exporter, "NCCL_IB_HCA", share->nccl);
        set_other(&exporter, "NCCL_SOCKET_IFNAME", share->efa ? "^docker,lo,veth" : "");
        set_other(&exporter, "UCX_NET_DEVICES", result->ucx);
        set_other(&exporter, "FI_CXI_DEVICE_NAME", result->cxi);
    }
    set_fact(&exporter, CONTRACT_EXPORTED, exporter.exported);
    if (exporter.failed)
        return error_set(err, "Slurm rejects variables for the environment of a task, which may be "
                              "too large; reduce it with --export");
    return 0;
}
