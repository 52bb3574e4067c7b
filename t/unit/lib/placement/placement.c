/* SPDX-License-Identifier: Apache-2.0 */
/* Placements that are known exactly: what a correct one looks like, and what each policy does. */
#include "placement_test.h"
#include "topologies.h"
#include "tap.h"

/* A row of the expected table as text: "gpus | nics | cpus | numa". */
struct expected {
    const char *node;
    int real;
    size_t tasks;
    const char *gpus, *cpus, *bind, *nics; /* of the request; NULL: all, auto */
    size_t gpus_per_task;
    const char *rows[9];
};

#define P5_ROWS                                                                             \
    "0 0000:53:00.0 | rdmap79s0,rdmap80s0,rdmap81s0,rdmap82s0 | 0-11,96-107 | 0",           \
        "1 0000:64:00.0 | rdmap96s0,rdmap97s0,rdmap98s0,rdmap99s0 | 12-23,108-119 | 0",     \
        "2 0000:75:00.0 | rdmap113s0,rdmap114s0,rdmap115s0,rdmap116s0 | 24-35,120-131 | 0", \
        "3 0000:86:00.0 | rdmap130s0,rdmap131s0,rdmap132s0,rdmap133s0 | 36-47,132-143 | 0", \
        "4 0000:97:00.0 | rdmap147s0,rdmap148s0,rdmap149s0,rdmap150s0 | 48-59,144-155 | 1", \
        "5 0000:a8:00.0 | rdmap164s0,rdmap165s0,rdmap166s0,rdmap167s0 | 60-71,156-167 | 1", \
        "6 0000:b9:00.0 | rdmap181s0,rdmap182s0,rdmap183s0,rdmap184s0 | 72-83,168-179 | 1", \
        "7 0000:ca:00.0 | rdmap198s0,rdmap199s0,rdmap200s0,rdmap201s0 | 84-95,180-191 | 1"

#define P4D_ROWS                                                                                   \
    "0 0000:10:1c.0 | rdmap16s27 | 0-5,48-53 | 0", "1 0000:10:1d.0 | rdmap16s27 | 6-11,54-59 | 0", \
        "2 0000:20:1c.0 | rdmap32s27 | 12-17,60-65 | 0",                                           \
        "3 0000:20:1d.0 | rdmap32s27 | 18-23,66-71 | 0",                                           \
        "4 0000:90:1c.0 | rdmap144s27 | 24-29,72-77 | 1",                                          \
        "5 0000:90:1d.0 | rdmap144s27 | 30-35,78-83 | 1",                                          \
        "6 0000:a0:1c.0 | rdmap160s27 | 36-41,84-89 | 1",                                          \
        "7 0000:a0:1d.0 | rdmap160s27 | 42-47,90-95 | 1"

static const struct expected tables[] = {
    /* One task per GPU. */
    {"p5.48xlarge", 0, 8, NULL, NULL, NULL, NULL, 0, {P5_ROWS}},
    {"p4d.24xlarge", 0, 8, NULL, NULL, NULL, NULL, 0, {P4D_ROWS}},
    {"p4d-flat", 0, 8, NULL, NULL, NULL, NULL, 0, {P4D_ROWS}},
    {"g4dnmetal",
     1,
     8,
     NULL,
     NULL,
     NULL,
     NULL,
     0,
     {"0 0000:18:00.0 | rdmap197s0 | 0-5,48-53 | 0", "1 0000:19:00.0 | rdmap197s0 | 6-11,54-59 | 0",
      "2 0000:35:00.0 | rdmap197s0 | 12-17,60-65 | 0",
      "3 0000:36:00.0 | rdmap197s0 | 18-23,66-71 | 0",
      "4 0000:e7:00.0 | rdmap197s0 | 24-29,72-77 | 1",
      "5 0000:e8:00.0 | rdmap197s0 | 30-35,78-83 | 1",
      "6 0000:f4:00.0 | rdmap197s0 | 36-41,84-89 | 1",
      "7 0000:f5:00.0 | rdmap197s0 | 42-47,90-95 | 1"}},
    {"coral-lassen",
     1,
     4,
     NULL,
     NULL,
     NULL,
     NULL,
     0,
     {"0 0004:04:00.0 | mlx5_0 | 8-47 | 0", "1 0004:05:00.0 | mlx5_1 | 48-87 | 0",
      "2 0035:03:00.0 | mlx5_2 | 96-135 | 8", "3 0035:04:00.0 | mlx5_3 | 136-175 | 8"}},
    {"juwels-booster",
     1,
     4,
     NULL,
     NULL,
     NULL,
     NULL,
     0,
     {"0 0000:03:00.0 | mlx5_0 | 18-23,66-71 | 3", "1 0000:44:00.0 | mlx5_1 | 6-11,54-59 | 1",
      "2 0000:84:00.0 | mlx5_2 | 42-47,90-95 | 7", "3 0000:c4:00.0 | mlx5_3 | 30-35,78-83 | 5"}},
    {"slingshot",
     0,
     4,
     NULL,
     NULL,
     NULL,
     NULL,
     0,
     {"0 0000:03:00.0 | hsn0 | 48-63,112-127 | 3", "1 0000:41:00.0 | hsn1 | 32-47,96-111 | 2",
      "2 0000:82:00.0 | hsn2 | 16-31,80-95 | 1", "3 0000:c1:00.0 | hsn3 | 0-15,64-79 | 0"}},

    /* Fewer tasks than GPUs: several each, split along the tree. */
    {"p5.48xlarge",
     0,
     1,
     NULL,
     NULL,
     NULL,
     "none",
     0,
     {"0 0000:53:00.0,1 0000:64:00.0,2 0000:75:00.0,3 0000:86:00.0,4 0000:97:00.0,5 0000:a8:00.0,6 "
      "0000:b9:00.0,7 0000:ca:00.0 | - | 0-191 | 0,1"}},
    {"p6-b200.48xlarge",
     0,
     4,
     NULL,
     NULL,
     NULL,
     NULL,
     0,
     {"0 0000:52:00.0,1 0000:53:00.0 | rdmap80s0,rdmap81s0 | 0-23,96-119 | 0",
      "2 0000:62:00.0,3 0000:63:00.0 | rdmap96s0,rdmap97s0 | 24-47,120-143 | 0",
      "4 0000:92:00.0,5 0000:93:00.0 | rdmap144s0,rdmap145s0 | 48-71,144-167 | 1",
      "6 0000:a2:00.0,7 0000:a3:00.0 | rdmap160s0,rdmap161s0 | 72-95,168-191 | 1"}},
    {"p4d.24xlarge",
     0,
     2,
     "0-1,4-6",
     NULL,
     NULL,
     NULL,
     0,
     {"0 0000:10:1c.0,1 0000:10:1d.0 | rdmap16s27 | 0-23,48-71 | 0",
      "4 0000:90:1c.0,5 0000:90:1d.0,6 0000:a0:1c.0 | rdmap144s27,rdmap160s27 | 24-47,72-95 | 1"}},
    {"uneven",
     0,
     2,
     NULL,
     NULL,
     NULL,
     NULL,
     0,
     {"0 0000:10:00.0,1 0000:20:00.0 | mlx5_0 | 0-6,16-22 | 0",
      "2 0000:30:00.0,3 0000:80:00.0 | mlx5_0 | 7-15,23-31 | 0,1"}},
    {"p5.48xlarge",
     0,
     2,
     NULL,
     NULL,
     NULL,
     "none",
     1,
     {"0 0000:53:00.0 | - | 0-47,96-143 | 0", "4 0000:97:00.0 | - | 48-95,144-191 | 1"}},

    {"slingshot",
     0,
     2,
     NULL,
     NULL,
     "core",
     NULL,
     1,
     {"2 0000:82:00.0 | hsn2 | 0-31,64-95 | 0,1", "0 0000:03:00.0 | hsn0 | 32-63,96-127 | 2,3"}},

    /* More tasks than GPUs: GPUs are shared, cores are not, NICs are split while there are enough.
     */
    {"one-gpu",
     0,
     2,
     NULL,
     NULL,
     NULL,
     NULL,
     0,
     {"0 0000:01:00.0 | - | 0-3,8-11 | 0", "0 0000:01:00.0 | - | 4-7,12-15 | 0"}},
    {"p5.48xlarge",
     0,
     2,
     "7",
     NULL,
     NULL,
     NULL,
     0,
     {"7 0000:ca:00.0 | rdmap198s0,rdmap199s0 | 48-71,144-167 | 1",
      "7 0000:ca:00.0 | rdmap200s0,rdmap201s0 | 72-95,168-191 | 1"}},

    /* Partial nodes: the pairs stay together. */
    {"p5.48xlarge",
     0,
     2,
     "0000:ca:00.0,64:00.0",
     NULL,
     NULL,
     NULL,
     0,
     {"1 0000:64:00.0 | rdmap96s0,rdmap97s0,rdmap98s0,rdmap99s0 | 0-47,96-143 | 0",
      "7 0000:ca:00.0 | rdmap198s0,rdmap199s0,rdmap200s0,rdmap201s0 | 48-95,144-191 | 1"}},
    {"p4d.24xlarge",
     0,
     2,
     "1,7",
     "0-3,95",
     NULL,
     NULL,
     0,
     {"1 0000:10:1d.0 | rdmap16s27 | 0-3 | 0", "7 0000:a0:1d.0 | rdmap160s27 | 95 | 1"}},
    {"p6-b200.48xlarge", 0, 1, "3", "0-1", NULL, NULL, 0, {"3 0000:63:00.0 | rdmap97s0 | 0-1 | 0"}},
    /* No core near the GPU: far cores are better than none. */
    {"p4d.24xlarge",
     0,
     2,
     "6,7",
     "0-3",
     NULL,
     NULL,
     0,
     {"6 0000:a0:1c.0 | rdmap160s27 | 0-1 | 0", "7 0000:a0:1d.0 | rdmap160s27 | 2-3 | 0"}},
    /* One core near two GPUs: one task moves away. */
    {"p4d.24xlarge",
     0,
     2,
     "6,7",
     "0-3,24,72",
     NULL,
     NULL,
     0,
     {"6 0000:a0:1c.0 | rdmap160s27 | 24,72 | 1", "7 0000:a0:1d.0 | rdmap160s27 | 0-3 | 0"}},
    /* Too few cores: they are shared. */
    {"p4d.24xlarge",
     0,
     4,
     "0-3",
     "0-1",
     NULL,
     "none",
     0,
     {"0 0000:10:1c.0 | - | 0 | 0", "1 0000:10:1d.0 | - | 0 | 0", "2 0000:20:1c.0 | - | 1 | 0",
      "3 0000:20:1d.0 | - | 1 | 0"}},

    /* No GPUs. */
    {"cpu-only", 0, 1, NULL, NULL, NULL, NULL, 0, {"- | mlx5_0,mlx5_1 | 0-63 | 0,1"}},
    {"cpu-only",
     0,
     2,
     NULL,
     NULL,
     NULL,
     NULL,
     0,
     {"- | mlx5_0 | 0-15,32-47 | 0", "- | mlx5_1 | 16-31,48-63 | 1"}},
    {"cpu-only",
     0,
     2,
     NULL,
     "0-4,16-19",
     NULL,
     NULL,
     0,
     {"- | mlx5_0 | 0-4 | 0", "- | mlx5_1 | 16-19 | 1"}},
    {"cpu-only",
     0,
     4,
     NULL,
     NULL,
     NULL,
     NULL,
     0,
     {"- | mlx5_0 | 0-7,32-39 | 0", "- | mlx5_0 | 8-15,40-47 | 0", "- | mlx5_1 | 16-23,48-55 | 1",
      "- | mlx5_1 | 24-31,56-63 | 1"}},
    {"four-numa",
     0,
     4,
     NULL,
     NULL,
     NULL,
     NULL,
     0,
     {"- | - | 0-15 | 0", "- | - | 16-31 | 1", "- | - | 32-47 | 8", "- | - | 48-63 | 9"}},
    {"p5.48xlarge",
     0,
     2,
     "none",
     NULL,
     NULL,
     "rdmap79s0,rdmap201s0",
     0,
     {"- | rdmap79s0 | 0-47,96-143 | 0", "- | rdmap201s0 | 48-95,144-191 | 1"}},

    /* Policies. */
    {"hgx4",
     0,
     2,
     "0,3",
     NULL,
     "none",
     NULL,
     0,
     {"0 0000:20:00.0 | mlx5_0 | 0-63 | 0,1", "3 0000:c0:00.0 | mlx5_3 | 0-63 | 0,1"}},
    {"hgx4",
     0,
     4,
     NULL,
     NULL,
     "numa",
     NULL,
     0,
     {"0 0000:20:00.0 | mlx5_0 | 0-31 | 0", "1 0000:40:00.0 | mlx5_1 | 0-31 | 0",
      "2 0000:90:00.0 | mlx5_2 | 32-63 | 1", "3 0000:c0:00.0 | mlx5_3 | 32-63 | 1"}},
    {"slingshot",
     0,
     4,
     NULL,
     NULL,
     "core",
     NULL,
     0,
     {"3 0000:c1:00.0 | hsn3 | 0-15,64-79 | 0", "2 0000:82:00.0 | hsn2 | 16-31,80-95 | 1",
      "1 0000:41:00.0 | hsn1 | 32-47,96-111 | 2", "0 0000:03:00.0 | hsn0 | 48-63,112-127 | 3"}},
    {"hgx4",
     0,
     4,
     NULL,
     NULL,
     "0-7,32-39",
     NULL,
     0,
     {"0 0000:20:00.0 | mlx5_0 | 0-3 | 0", "1 0000:40:00.0 | mlx5_1 | 4-7 | 0",
      "2 0000:90:00.0 | mlx5_2 | 32-35 | 1", "3 0000:c0:00.0 | mlx5_3 | 36-39 | 1"}},
    {"hgx4",
     0,
     2,
     "0,3",
     NULL,
     "60-63/1,2,3",
     NULL,
     0,
     {"3 0000:c0:00.0 | mlx5_3 | 60-63 | 1", "0 0000:20:00.0 | mlx5_0 | 1-3 | 0"}},
    {"hgx4",
     0,
     2,
     "0,3",
     NULL,
     NULL,
     "all",
     0,
     {"0 0000:20:00.0 | mlx5_0,mlx5_1,mlx5_2,mlx5_3 | 0-31 | 0",
      "3 0000:c0:00.0 | mlx5_0,mlx5_1,mlx5_2,mlx5_3 | 32-63 | 1"}},
    {"hgx4",
     0,
     2,
     "0,3",
     NULL,
     NULL,
     "mlx5_1",
     0,
     {"0 0000:20:00.0 | mlx5_1 | 0-31 | 0", "3 0000:c0:00.0 | mlx5_1 | 32-63 | 1"}},
    {"hgx4",
     0,
     2,
     "0,3",
     NULL,
     NULL,
     "mlx5_2,mlx5_0/c1:00.0",
     0,
     {"0 0000:20:00.0 | mlx5_0,mlx5_2 | 0-31 | 0", "3 0000:c0:00.0 | mlx5_3 | 32-63 | 1"}},
    /* A card that is not a compute NIC, used because it is named. */
    {"one-gpu", 0, 1, NULL, NULL, NULL, "eno1", 0, {"0 0000:01:00.0 | eno1 | 0-15 | 0"}},
};

void format_task(const struct placement_task *task, char *text, size_t size)
{
    char pci[PCI_TEXT], name[32];
    size_t used = 0;

    for (size_t i = 0; i < task->gpu_count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%d %s", i ? "," : "",
                                 task->gpus[i].index, pci_format(&task->gpus[i].pci, pci));
    used += (size_t)snprintf(text + used, size - used, "%s | ", task->gpu_count ? "" : "-");
    for (size_t i = 0; i < task->nic_count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? "," : "",
                                 topology_device_name(task->nics[i], name));
    used += (size_t)snprintf(text + used, size - used, "%s | ", task->nic_count ? "" : "-");
    used += cpuset_format(&task->cpus, text + used, size - used);
    used += (size_t)snprintf(text + used, size - used, " | ");
    for (size_t i = 0; i < task->numa_count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%d", i ? "," : "", task->numa[i]);
}

static void test_table(const struct expected *table)
{
    struct topology *topology = read_node(table->node, table->real);
    struct placement_request request = {.tasks = table->tasks,
                                        .bind = table->bind,
                                        .nics = table->nics,
                                        .gpus_per_task = table->gpus_per_task};
    struct allocated_gpu *gpus = NULL;
    struct placement *placement;
    struct cpuset cpus;
    struct error err = {.text = ""};
    char text[1024], name[256];

    if (!topology) {
        missing_node(table->node, table->real);
        return;
    }
    if (table->gpus)
        request.gpus = gpus =
            placement_parse_gpus("gpus", table->gpus, topology, &request.gpu_count, &err);
    if (table->cpus && cpuset_parse("cpus", table->cpus, &cpus, &err) == 0)
        request.cpus = &cpus;
    placement = placement_create(topology, &request, &err);
    ok(placement != NULL, "%s, %zu tasks %s", table->node, table->tasks, err.text);
    for (size_t i = 0; placement && i < placement->task_count; i++) {
        snprintf(name, sizeof(name), "%s: task %zu of %zu, gpus %s, cpus %s, bind %s, nics %s",
                 table->node, i, table->tasks, table->gpus ? table->gpus : "all",
                 table->cpus ? table->cpus : "all", table->bind ? table->bind : "auto",
                 table->nics ? table->nics : "auto");
        format_task(&placement->tasks[i], text, sizeof(text));
        is(text, table->rows[i], name);
    }
    placement_destroy(placement);
    free(gpus);
    topology_destroy(topology);
}

int main(void)
{
    struct topology *topology = read_node("hgx4", 0);

    test_values();
    if (!topology)
        return ok(1, "# SKIP no hwloc here"), done_testing();
    topology_destroy(topology);
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        test_table(&tables[i]);
    test_errors();
    test_gpu_lists();
    test_instances();
    test_overrides();
    test_starved();
    test_node_facts();
    return done_testing();
}
