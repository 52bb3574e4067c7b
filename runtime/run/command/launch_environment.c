/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of a rank: the contract, and those that programs started by torchrun know. */
#include "config.h"

#include "lib/contract.h"
#include "launch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, TEXT = 16384 };

struct list {
    char **items;
    size_t count;
    int failed;
};

__attribute__((format(printf, 3, 4))) static void add(struct list *list, const char *name,
                                                      const char *format, ...)
{
    char value[TEXT], *item = NULL;
    va_list args;

    va_start(args, format);
    vsnprintf(value, sizeof(value), format, args);
    va_end(args);
    if (list->count + 1 >= MOST || asprintf(&item, "%s=%s", name, value) < 0) {
        list->failed = 1;
        return;
    }
    list->items[list->count++] = item;
}

static void add_number(struct list *list, enum contract_variable variable, const char *other,
                       int64_t value)
{
    add(list, contract_name(variable), "%" PRId64, value);
    if (other)
        add(list, other, "%" PRId64, value);
}

/* Choices of the user are kept. */
static void add_choice(struct list *list, const char *name, const char *value)
{
    if (value[0] && !getenv(name))
        add(list, name, "%s", value);
}

static void append(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    if (used + 1 < size) {
        snprintf(text + used, size - used, "%s", used ? "," : "");
        used = strlen(text);
        vsnprintf(text + used, size - used, format, args);
    }
    va_end(args);
}

static void add_devices(struct list *list, const struct placement_task *task)
{
    char gpus[TEXT] = "", pci[TEXT] = "", nics[TEXT] = "", name[PCI_TEXT + 32];

    for (size_t i = 0; i < task->gpu_count; i++) {
        append(gpus, sizeof(gpus), "%d", task->gpus[i].number);
        append(pci, sizeof(pci), "%s", pci_format(&task->gpus[i].pci, name));
    }
    for (size_t i = 0; i < task->nic_count; i++)
        append(nics, sizeof(nics), "%s", topology_device_name(task->nics[i], name));
    if (gpus[0]) {
        add(list, contract_name(CONTRACT_GPU), "%s", gpus);
        add(list, contract_name(CONTRACT_GPU_PCI), "%s", pci);
        add_choice(list, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    }
    if (nics[0])
        add_choice(list, contract_name(CONTRACT_NICS), nics);
}

static void add_place(struct list *list, const struct launch_places *places, int64_t local_rank)
{
    const struct placement_task *task = &places->placement->tasks[local_rank];
    char cpus[TEXT], numa[TEXT] = "";

    cpuset_format(&task->cpus, cpus, sizeof(cpus));
    for (size_t i = 0; i < task->numa_count; i++)
        append(numa, sizeof(numa), "%d", task->numa[i]);
    add(list, contract_name(CONTRACT_CPUS), "%s", cpus);
    if (numa[0])
        add(list, contract_name(CONTRACT_NUMA), "%s", numa);
    add_devices(list, task);
    add_choice(list, "NCCL_IB_HCA", places->nccl);
    /* The link-local interface of EKS Pod Identity connects to nothing. */
    add_choice(list, "NCCL_SOCKET_IFNAME", places->efa ? "^docker,lo,veth,pod-id-link" : "");
}

char **launch_environment(const struct launch_run *run, int64_t local_rank)
{
    const struct launch_pod *pod = run->pod;
    struct list list = {.items = calloc(MOST, sizeof(char *))};

    if (!list.items)
        return NULL;
    add_number(&list, CONTRACT_CONTRACT, NULL, CONTRACT_VERSION);
    add_number(&list, CONTRACT_RANK, "RANK", pod->node_rank * run->ranks + local_rank);
    add_number(&list, CONTRACT_WORLD_SIZE, "WORLD_SIZE", pod->nodes * run->ranks);
    add_number(&list, CONTRACT_LOCAL_RANK, "LOCAL_RANK", local_rank);
    add_number(&list, CONTRACT_LOCAL_SIZE, "LOCAL_WORLD_SIZE", run->ranks);
    add_number(&list, CONTRACT_NODE_RANK, "GROUP_RANK", pod->node_rank);
    add_number(&list, CONTRACT_NODES, "GROUP_WORLD_SIZE", pod->nodes);
    add_number(&list, CONTRACT_RESTARTS, NULL, run->restarts);
    add_number(&list, CONTRACT_MASTER_PORT, "MASTER_PORT", run->port);
    add(&list, contract_name(CONTRACT_MASTER_ADDR), "%s", pod->master);
    add(&list, "MASTER_ADDR", "%s", pod->master);
    if (run->secret)
        add(&list, contract_name(CONTRACT_SECRET), "%s", run->secret);
    /* Variables of an mpirun that has started this launcher must not reach the ranks. */
    if (run->places->placement)
        add_place(&list, run->places, local_rank);
    if (!list.failed)
        return list.items;
    launch_environment_free(list.items);
    return NULL;
}

void launch_environment_free(char **list)
{
    for (char **item = list; item && *item; item++)
        free(*item);
    free(list);
}
