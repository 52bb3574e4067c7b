/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of a rank: the contract, and those that programs started by torchrun know. */
#include "config.h"

#include "lib/contract.h"
#include "lib/parse.h"
#include "launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT = 16384 };

static void put_number(launch_put *put, enum contract_variable variable, const char *other,
                       int64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, value);
    put(contract_name(variable), text);
    if (other)
        put(other, text);
}

/* Choices of the user are kept. */
static void put_choice(launch_put *put, const char *name, const char *value)
{
    if (value[0] && !getenv(name))
        put(name, value);
}

static void put_devices(launch_put *put, const struct placement_task *task)
{
    char gpus[TEXT] = "", pci[TEXT] = "", nics[TEXT] = "", name[PCI_TEXT + 32];

    for (size_t i = 0; i < task->gpu_count; i++) {
        list_text_add(gpus, sizeof(gpus), ",", "%d", task->gpus[i].number);
        list_text_add(pci, sizeof(pci), ",", "%s", pci_format(&task->gpus[i].pci, name));
    }
    for (size_t i = 0; i < task->nic_count; i++)
        list_text_add(nics, sizeof(nics), ",", "%s", topology_device_name(task->nics[i], name));
    if (gpus[0]) {
        put(contract_name(CONTRACT_GPU), gpus);
        put(contract_name(CONTRACT_GPU_PCI), pci);
        put_choice(put, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    }
    if (nics[0])
        put_choice(put, contract_name(CONTRACT_NICS), nics);
}

static void put_place(launch_put *put, const struct launch_places *places, int64_t local_rank)
{
    const struct placement_task *task = &places->placement->tasks[local_rank];
    char cpus[TEXT], numa[TEXT] = "";

    cpuset_format(&task->cpus, cpus, sizeof(cpus));
    for (size_t i = 0; i < task->numa_count; i++)
        list_text_add(numa, sizeof(numa), ",", "%d", task->numa[i]);
    put(contract_name(CONTRACT_CPUS), cpus);
    if (numa[0])
        put(contract_name(CONTRACT_NUMA), numa);
    put_devices(put, task);
    put_choice(put, "NCCL_IB_HCA", places->nccl);
    /* The link-local interface of EKS Pod Identity connects to nothing. */
    put_choice(put, "NCCL_SOCKET_IFNAME", places->efa ? "^docker,lo,veth,pod-id-link" : "");
}

void launch_environment(const struct launch_run *run, int64_t local_rank, launch_put *put)
{
    const struct launch_pod *pod = run->pod;

    put_number(put, CONTRACT_CONTRACT, NULL, CONTRACT_VERSION);
    put_number(put, CONTRACT_RANK, "RANK", pod->node_rank * run->ranks + local_rank);
    put_number(put, CONTRACT_WORLD_SIZE, "WORLD_SIZE", pod->nodes * run->ranks);
    put_number(put, CONTRACT_LOCAL_RANK, "LOCAL_RANK", local_rank);
    put_number(put, CONTRACT_LOCAL_SIZE, "LOCAL_WORLD_SIZE", run->ranks);
    put_number(put, CONTRACT_NODE_RANK, "GROUP_RANK", pod->node_rank);
    put_number(put, CONTRACT_NODES, "GROUP_WORLD_SIZE", pod->nodes);
    put_number(put, CONTRACT_RESTARTS, NULL, run->restarts);
    put_number(put, CONTRACT_MASTER_PORT, "MASTER_PORT", run->port);
    put(contract_name(CONTRACT_MASTER_ADDR), pod->master);
    put("MASTER_ADDR", pod->master);
    if (run->secret)
        put(contract_name(CONTRACT_SECRET), run->secret);
    if (run->places->placement)
        put_place(put, run->places, local_rank);
}
