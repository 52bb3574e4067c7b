/* SPDX-License-Identifier: Apache-2.0 */
#include "facts.h"

#include <slurm/slurm.h>
#include <string.h>
#include <unistd.h>

#include "lib/contract.h"
#include "lib/parse.h"

const char *facts_variable(spank_t spank, const char *name, char *buffer, size_t size)
{
    if (spank_getenv(spank, name, buffer, (int)size) != ESPANK_SUCCESS)
        buffer[0] = '\0';
    return buffer;
}

/* slurmstepd's variables count over all components of a het job, SPANK's items over one component
 * only. The item is the fallback if the variable is not set. */
static uint32_t number_of(spank_t spank, const char *name, uint32_t otherwise)
{
    char text[32];
    int64_t value;

    if (parse_int64(name, facts_variable(spank, name, text, sizeof(text)), 0, UINT32_MAX, &value,
                    NULL))
        return otherwise;
    return (uint32_t)value;
}

int facts_read(struct facts *facts, spank_t spank, struct error *err)
{
    uint32_t rank = 0, world = 0, node = 0, nodes = 0, job = 0;
    int local = -1;
    char text[HANDOFF_TEXT];

    memset(facts, 0, sizeof(*facts));
    if (spank_get_item(spank, S_JOB_ID, &job) ||
        spank_get_item(spank, S_JOB_STEPID, &facts->step) ||
        spank_get_item(spank, S_TASK_ID, &local) || local < 0 ||
        spank_get_item(spank, S_TASK_GLOBAL_ID, &rank) ||
        spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &world) ||
        spank_get_item(spank, S_JOB_NODEID, &node) || spank_get_item(spank, S_JOB_NNODES, &nodes) ||
        spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &facts->local_size))
        return error_set(err, "Slurm does not provide the rank of this task; see the log of slurmd "
                              "on this node, or use --megatron-off");
    facts->local = (uint32_t)local;
    facts->job = number_of(spank, "SLURM_JOB_ID", job);
    facts->rank = number_of(spank, "SLURM_PROCID", rank);
    facts->world = number_of(spank, "SLURM_NTASKS", world);
    facts->node_rank = number_of(spank, "SLURM_NODEID", node);
    facts->nodes = number_of(spank, "SLURM_NNODES", nodes);
    facts->het = facts->world != world || facts->job != job;
    facts->restarts = number_of(spank, "SLURM_RESTART_COUNT", 0);
    if (!facts_variable(spank, "SLURMD_NODENAME", facts->node, sizeof(facts->node))[0])
        gethostname(facts->node, sizeof(facts->node) - 1);
    facts_variable(spank, "SLURM_CLUSTER_NAME", facts->cluster, sizeof(facts->cluster));
    handoff_parse(&facts->handoff, facts_variable(spank, CONTRACT_MARK_CLIENT, text, sizeof(text)));
    handoff_parse(&facts->handoff, facts_variable(spank, HANDOFF_STEP, text, sizeof(text)));
    return 0;
}
