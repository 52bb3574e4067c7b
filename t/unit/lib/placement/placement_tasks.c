/* SPDX-License-Identifier: Apache-2.0 */
/* Placements that a table of rows does not cover: parts of GPUs, choices for single tasks, NICs
 * taken from others, and warnings about the node. */
#include "placement_test.h"
#include "topologies.h"
#include "tap.h"

/* Two instances of GPU 1 and one of GPU 3, in the order of Slurm's list. */
void test_instances(void)
{
    struct topology *topology = read_node("p5.48xlarge", 0);
    struct allocated_gpu gpus[] = {{topology_gpu(topology, 3)->pci, "MIG-c"},
                                   {topology_gpu(topology, 1)->pci, "MIG-a"},
                                   {topology_gpu(topology, 1)->pci, "MIG-b"}};
    struct placement_request request = {.tasks = 3, .gpus = gpus, .gpu_count = 3};
    struct placement *placement = placement_create(topology, &request, NULL);
    static const char *const instances[] = {"MIG-a", "MIG-b", "MIG-c"};
    static const size_t nics[] = {2, 2, 4}, positions[] = {1, 2, 0};

    for (size_t i = 0; ok(placement != NULL, "instances are placed") && i < 3; i++) {
        const struct placement_task *task = &placement->tasks[i];

        ok(task->gpu_count == 1 && strcmp(task->gpus[0].instance, instances[i]) == 0 &&
               task->gpus[0].number == (int)i && task->gpus[0].position == positions[i],
           "task %zu gets %s", i, instances[i]);
        is_int(task->gpus[0].index, i < 2 ? 1 : 3, "of the right GPU");
        is_int((long long)task->nic_count, (long long)nics[i], "with its NICs");
    }
    placement_destroy(placement);
    topology_destroy(topology);
}

void test_overrides(void)
{
    struct topology *topology = read_node("hgx4", 0);
    struct cpuset last, first;
    size_t wanted[] = {2};
    struct placement_override overrides[4] = {{0}};
    struct placement_request request = {.tasks = 4, .overrides = overrides};
    struct placement *placement;
    char text[256];

    cpuset_parse("", "56-63", &last, NULL);
    cpuset_parse("", "0-7", &first, NULL);
    overrides[0].cpus = &last;
    overrides[1].gpus = wanted;
    overrides[1].gpu_count = 1;
    placement = placement_create(topology, &request, NULL);
    if (ok(placement != NULL, "overrides of two tasks")) {
        format_task(&placement->tasks[0], text, sizeof(text));
        is(text, "0 0000:20:00.0 | mlx5_0 | 56-63 | 1", "a override for CPUs is kept");
        ok(!placement->tasks[0].bound && placement->tasks[1].bound, "and not bound by us");
        format_task(&placement->tasks[1], text, sizeof(text));
        is(text, "2 0000:90:00.0 | mlx5_2 | 32-43 | 1", "a override for a GPU leads to its cores");
        format_task(&placement->tasks[2], text, sizeof(text));
        is(text, "1 0000:40:00.0 | mlx5_1 | 0-31 | 0", "others get what is left");
        format_task(&placement->tasks[3], text, sizeof(text));
        is(text, "3 0000:c0:00.0 | mlx5_3 | 44-55 | 1", "and no core that is taken");
    }
    placement_destroy(placement);

    request.tasks = 2;
    overrides[0] = (struct placement_override){.cpus = &last};
    overrides[1] = (struct placement_override){.cpus = &first};
    request.gpus_per_task = 0;
    placement = placement_create(topology, &request, NULL);
    if (ok(placement != NULL, "overrides for all CPUs")) {
        is_int(placement->tasks[0].gpus[0].index, 2, "GPUs follow the CPUs");
        is_int(placement->tasks[1].gpus[0].index, 0, "of every task");
    }
    placement_destroy(placement);

    overrides[0] = (struct placement_override){.gpus = wanted, .gpu_count = 0};
    overrides[1] = (struct placement_override){.gpus = wanted, .gpu_count = 1};
    placement = placement_create(topology, &request, NULL);
    ok(placement && placement->tasks[0].gpu_count == 0 && placement->tasks[1].gpu_count == 1 &&
           placement->tasks[0].nic_count > 0 && !cpuset_is_empty(&placement->tasks[0].cpus),
       "a task may want no GPU");
    placement_destroy(placement);
    topology_destroy(topology);
}

/* One switch with a GPU and three NICs, one with a GPU and none, one with its own NIC. */
void test_starved(void)
{
    static const char text[] = "megatron-topology 1\nplace 0 -1 0 2\nplace 3 0 0 0\nplace 3 0 0 0\n"
                               "place 3 0 0 0\nnuma 0 0\ncore 0 0\ncore 0 1\n"
                               "device 0 10:00.0 10de 1 302 1 -\ndevice 0 20:00.0 10de 1 302 2 -\n"
                               "device 1 11:00.0 15b3 1 207 1 a\ndevice 1 12:00.0 15b3 1 207 1 b\n"
                               "device 1 13:00.0 15b3 1 207 1 c\n%send\n";
    static const struct {
        const char *more;
        const char *rows[2];
    } cases[] = {
        /* A GPU without a NIC takes one from a GPU with several. */
        {"", {"0 0000:10:00.0 | a,b | 0 | 0", "1 0000:20:00.0 | c | 1 | 0"}},
        /* It takes an unused one first. */
        {"device 1 30:00.0 15b3 1 207 3 d\n",
         {"0 0000:10:00.0 | a,b,c | 0 | 0", "1 0000:20:00.0 | d | 1 | 0"}},
        /* A NIC that is the only one of another GPU stays there. */
        {"device 0 30:00.0 10de 1 302 3 -\ndevice 1 30:01.0 15b3 1 207 3 d\n",
         {"0 0000:10:00.0 | a,b | 0 | 0", "1 0000:20:00.0 | c | 1 | 0"}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char node[1024], row[128];
        struct error err = {.text = ""};
        int length = snprintf(node, sizeof(node), text, cases[i].more);
        struct topology *topology = topology_parse("node", node, (size_t)length, &err);
        struct allocated_gpu gpus[] = {{{0, 0x10, 0, 0}, NULL}, {{0, 0x20, 0, 0}, NULL}};
        struct placement_request request = {.tasks = 2, .gpus = gpus, .gpu_count = 2};
        struct placement *placement = topology ? placement_create(topology, &request, &err) : NULL;

        for (size_t t = 0; ok(placement != NULL, "starved GPU %zu %s", i, err.text) && t < 2; t++) {
            format_task(&placement->tasks[t], row, sizeof(row));
            is(row, cases[i].rows[t], "no GPU without a NIC while another has several");
        }
        placement_destroy(placement);
        topology_destroy(topology);
    }
}

void test_node_facts(void)
{
    struct topology *topology = read_node("p5.48xlarge", 0);
    struct placement_request request = {.tasks = 16};
    struct placement *placement = placement_create(topology, &request, NULL);
    struct cpuset cpus;

    ok(placement && placement->nic_count == 32 && placement->gpu_count == 8,
       "the node's list of NICs");
    ok(placement && placement->warning_count == 1 &&
           strncmp(placement->warnings[0], "16 tasks share 8 GPUs; ", 23) == 0,
       "a warning about sharing");
    placement_destroy(placement);
    request.tasks = 2;
    request.cpus = &cpus;
    cpuset_parse("", "0-3", &cpus, NULL);
    placement = placement_create(topology, &request, NULL);
    ok(placement && placement->warning_count == 1 &&
           strstr(placement->warnings[0], "1 of 2 tasks are not on their GPU's NUMA node"),
       "a warning about the distance");
    placement_destroy(placement);
    request.cpus = NULL;
    request.tasks = 1;
    request.nics = "none";
    placement = placement_create(topology, &request, NULL);
    ok(placement && placement->nic_count == 0 && placement->warning_count == 0, "nothing to say");
    placement_destroy(placement);
    request.bind = "0-999";
    placement = placement_create(topology, &request, NULL);
    ok(placement && placement->warning_count == 1 &&
           strstr(placement->warnings[0], "some of the CPUs 0-999 are not allocated to this step"),
       "a warning about CPUs that the node does not have");
    placement_destroy(placement);
    request.bind_is_default = 1;
    placement = placement_create(topology, &request, NULL);
    ok(placement && placement->warning_count == 0, "but not if they are a default for all steps");
    placement_destroy(placement);
    topology_destroy(topology);
}
