/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: topology files and placement options. The first byte selects the reader; the result
 * must then be placed without leaving the allocation. */
#include "lib/placement.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char node[] = "megatron-topology 1\n"
                           "place 0 -1 0 4\nplace 1 0 0 2\nplace 1 0 2 2\nplace 3 1 0 0\n"
                           "numa 0 1\nnuma 1 2\n"
                           "core 0 0,4\ncore 0 1,5\ncore 1 2,6\ncore 1 3,7\n"
                           "device 0 0000:10:1c.0 10de 20b0 302 3 -\n"
                           "device 0 0000:10:1d.0 10de 20b0 302 3 -\n"
                           "device 1 0000:10:1b.0 1d0f efa1 200 3 rdmap16s27\n"
                           "end\n";

static struct topology *read_node(void)
{
    return topology_parse("node", node, sizeof(node) - 1, NULL);
}

static void place(const struct topology *topology, const char *bind, const char *nics, size_t tasks)
{
    struct placement_request request = {.tasks = tasks, .bind = bind, .nics = nics};
    struct error err;
    struct placement *placement = placement_create(topology, &request, &err);
    struct cpuset cpus;

    topology_cpus(topology, &cpus);
    for (size_t i = 0; placement && i < placement->task_count; i++)
        if (cpuset_is_empty(&placement->tasks[i].cpus) ||
            !cpuset_within(&placement->tasks[i].cpus, &cpus))
            abort();
    placement_destroy(placement);
}

static void fuzz_options(const char *text)
{
    struct topology *topology = read_node();
    struct error err;
    size_t count;

    free(placement_parse_gpus("gpus", text, topology, &count, &err));
    /* Input that the client accepts must not surprise the node. */
    if (placement_check_bind("bind", text, 2, &err) == 0)
        place(topology, text, NULL, 2);
    if (placement_check_nics("nics", text, 2, &err) == 0)
        place(topology, NULL, text, 2);
    topology_destroy(topology);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct topology *topology = NULL;
    struct error err;
    char *text;

    if (size < 1 || !(text = calloc(1, size)))
        return 0;
    memcpy(text, data + 1, size - 1);
    switch (data[0] % 2) {
    case 0:
        /* Not hwloc's XML, whose parser is not ours. */
        if (strncmp(text, "megatron-topology", 17) == 0)
            topology = topology_parse("FILE", text, size - 1, &err);
        break;
    default:
        fuzz_options(text);
    }
    if (topology)
        for (size_t tasks = 1; tasks <= 5; tasks++)
            place(topology, NULL, NULL, tasks);
    topology_destroy(topology);
    free(text);
    return 0;
}
