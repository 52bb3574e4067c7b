/* SPDX-License-Identifier: Apache-2.0 */
/* What a request may contain, and the errors of requests that cannot be met. */
#include "placement_test.h"
#include "topologies.h"
#include "tap.h"

static const struct {
    const char *node, *gpus, *cpus, *bind, *nics;
    size_t tasks, gpus_per_task;
    const char *says;
} errors[] = {
    {"hgx4", NULL, NULL, NULL, NULL, 0, 0, "0 tasks"},
    {"hgx4", NULL, NULL, NULL, NULL, 65537, 0, "65537 tasks"},
    {"hgx4", NULL, NULL, "socket", NULL, 4, 0, "use auto, none, gpu, numa, core or CPUs"},
    {"hgx4", NULL, NULL, "0-3/4-7", NULL, 4, 0, "2 lists of CPUs for 4 tasks"},
    {"hgx4", NULL, NULL, "0-3//4-7", NULL, 3, 0, "list 2 is empty"},
    {"hgx4", NULL, NULL, "100-103", NULL, 4, 0, "none of the CPUs 100-103 is allocated"},
    {"hgx4", NULL, NULL, "0-3/100-103", NULL, 2, 0,
     "none of the CPUs 100-103 listed for task 1 of this node"},
    {"hgx4", NULL, "64-127", NULL, NULL, 4, 0, "none of the CPUs that are allocated"},
    {"hgx4", NULL, NULL, NULL, "mlx5_9", 4, 0, "no NIC mlx5_9"},
    {"hgx4", NULL, NULL, NULL, "mlx5_0/mlx5_1", 4, 0, "2 lists of NICs for 4 tasks"},
    {"hgx4", NULL, NULL, NULL, "a b", 4, 0, "use auto, none, all or names"},
    {"hgx4", NULL, NULL, NULL, NULL, 4, 2, "4 tasks with 2 GPUs each need 8"},
    {"hgx4", "none", NULL, "gpu", NULL, 4, 0, "no GPU"},
    {"cpu-only", NULL, NULL, "gpu", NULL, 4, 0, "no GPU"},
};

void test_errors(void)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        struct topology *topology = read_node(errors[i].node, 0);
        struct placement_request request = {.tasks = errors[i].tasks,
                                            .bind = errors[i].bind,
                                            .nics = errors[i].nics,
                                            .gpus_per_task = errors[i].gpus_per_task};
        struct allocated_gpu *gpus = NULL;
        struct placement *placement;
        struct cpuset cpus;
        struct error err = {.text = ""};

        if (errors[i].gpus)
            request.gpus = gpus =
                placement_parse_gpus("gpus", errors[i].gpus, topology, &request.gpu_count, &err);
        if (errors[i].cpus && cpuset_parse("cpus", errors[i].cpus, &cpus, &err) == 0)
            request.cpus = &cpus;
        placement = placement_create(topology, &request, &err);
        ok(!placement && strstr(err.text, errors[i].says), "rejected: %s", err.text);
        placement_destroy(placement);
        free(gpus);
        topology_destroy(topology);
    }
}

static const struct {
    const char *text;
    size_t tasks;
    int bind, nics; /* expected return codes */
} values[] = {
    {"auto", 8, 0, 0},        {"none", 0, 0, 0},
    {"gpu", 1, 0, 0},         {"all", 1, -1, 0},
    {"numa", 3, 0, 0},        {"core", 3, 0, 0},
    {"0-3", 8, 0, 0},         {"0-3/4-7", 2, 0, 0},
    {"0-3/4-7", 0, 0, 0},     {"0-3/4-7", 3, -1, -1},
    {"", 1, -1, -1},          {"/", 2, -1, 0},
    {"a;b", 1, -1, -1},       {"mlx5_0,mlx5_1", 1, -1, 0},
    {"$(reboot)", 1, -1, -1}, {"0-", 1, -1, 0},
};

void test_values(void)
{
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct error err = {.text = ""};

        ok(placement_check_bind("--megatron-bind", values[i].text, values[i].tasks, &err) ==
               values[i].bind,
           "bind=%s for %zu tasks: %s", values[i].text, values[i].tasks, err.text);
        err.text[0] = '\0';
        ok(placement_check_nics("--megatron-nics", values[i].text, values[i].tasks, &err) ==
               values[i].nics,
           "nics=%s for %zu tasks: %s", values[i].text, values[i].tasks, err.text);
    }
}

static const struct {
    const char *text, *expected; /* NULL: rejected */
} gpu_lists[] = {
    {"all", "0 1 2 3 "},
    {"none", ""},
    {"0", "0 "},
    {"2,0", "0 2 "},
    {"1-3", "1 2 3 "},
    {"40:00.0", "1 "},
    {"0000:c0:00.0,0", "0 3 "},
    {"4", NULL},
    {"0-4", NULL},
    {"21:00.0", NULL},
    {"x", NULL},
    {"0,,1", "0 1 "},
};

void test_gpu_lists(void)
{
    struct topology *topology = read_node("hgx4", 0);

    for (size_t i = 0; i < sizeof(gpu_lists) / sizeof(gpu_lists[0]); i++) {
        struct error err = {.text = ""};
        size_t count = 0, used = 0;
        struct allocated_gpu *allocated =
            placement_parse_gpus("--gpus", gpu_lists[i].text, topology, &count, &err);
        char text[64] = "";

        for (size_t k = 0; allocated && k < count; k++)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%d ",
                                     topology_gpu_index(topology, &allocated[k].pci));
        if (gpu_lists[i].expected)
            ok(allocated && strcmp(text, gpu_lists[i].expected) == 0, "gpus=%s is %s%s",
               gpu_lists[i].text, text, err.text);
        else
            ok(!allocated && strstr(err.text, "--gpus"), "gpus=%s: %s", gpu_lists[i].text,
               err.text);
        free(allocated);
    }
    topology_destroy(topology);
}
