/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"
#include "base/core/world.h"

#include <stdlib.h>

static const char *const names[] = {
    "MEGATRON_CONTRACT",
    "MEGATRON_RANK",
    "MEGATRON_WORLD_SIZE",
    "MEGATRON_TP",
    "MEGATRON_MASTER_ADDR",
    "MEGATRON_MASTER_PORT",
    "MEGATRON_JOB_END",
    "MEGATRON_MODEL",
    "MEGATRON_LOCAL_RANK",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_ID",
    "SLURM_STEP_NODELIST",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_TASKS_PER_NODE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "SLURM_SPANK_MEGATRON_JOB",
    "SLURM_SPANK_MEGATRON_CLIENT",
    "SLURMD_NODENAME",
    "SLURM_LAUNCH_NODE_IPADDR",
};

/* Ranks of a node, as set by Slurm. */
static void test_tasks_per_node(void)
{
    static const struct {
        const char *tasks, *node;
        int64_t local_size;
    } rows[] = {
        {"4", "0", 4},       {"3,1", "0", 3},       {"3,1", "1", 1}, {"4(x2),3", "1", 4},
        {"4(x2),3", "2", 3}, {"2,4(x3),1", "3", 4}, {"3,1", "2", 1}, {"", "0", 1},
        {"x", "0", 1},       {"4(x", "0", 1},       {"0,4", "1", 1}, {"99(x2)", "0", 1},
        {"4(x2)3", "5", 1},  {"-4", "0", 1},
    };

    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_NTASKS", "16", 1);
    setenv("SLURM_STEP_ID", "0", 1);
    setenv("SLURM_STEP_NODELIST", "n[1-4]", 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world world;

        setenv("SLURM_STEP_TASKS_PER_NODE", rows[i].tasks, 1);
        setenv("SLURM_NODEID", rows[i].node, 1);
        world_read(&world, NULL);
        is_int(world.local_size, rows[i].local_size, "tasks of a node");
    }
}

static void test_say_once(void)
{
    static const struct {
        const char *rank, *local_rank;
        int of_node, says;
    } rows[] = {{"0", "0", 0, 1}, {"0", "0", 1, 1}, {"4", "0", 0, 0},
                {"4", "0", 1, 1}, {"5", "1", 0, 0}, {"5", "1", 1, 0}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = {.text = "text"};

        setenv("SLURM_PROCID", rows[i].rank, 1);
        setenv("SLURM_LOCALID", rows[i].local_rank, 1);
        is_int(world_say_once(rows[i].of_node, &err), -1, "fails");
        is_int(err.quiet, !rows[i].says, "one rank prints the error");
    }
}

int main(void)
{
    static const struct {
        const char *environment[12];
        const char *source;
        int64_t rank, size;
        const char *error;
    } rows[] = {
        {{NULL}, "default", 0, 1, NULL},
        {{"MEGATRON_RANK=3", "MEGATRON_WORLD_SIZE=4", "SLURM_PROCID=1", "RANK=0"},
         "MEGATRON",
         3,
         4,
         NULL},
        {{"SLURM_PROCID=2", "SLURM_NTASKS=4", "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=n1",
          "RANK=1"},
         "SLURM",
         2,
         4,
         NULL},
        {{"SLURM_PROCID=0", "SLURM_NTASKS=4"}, "default", 0, 1, NULL},
        {{"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_STEP_ID=4294967290", "SLURM_STEP_NODELIST=n1"},
         "default",
         0,
         1,
         NULL},
        {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"}, "OMPI", 1, 2, NULL},
        {{"RANK=5", "WORLD_SIZE=8"}, "RANK", 5, 8, NULL},
        {{"RANK=8", "WORLD_SIZE=8"}, NULL, 0, 0, "RANK=8 is out of range; use 0 to 7"},
        {{"RANK=x", "WORLD_SIZE=8"},
         NULL,
         0,
         0,
         "RANK=x is not a whole number; write digits only, as in 16"},
        {{"MEGATRON_CONTRACT=99"},
         NULL,
         0,
         0,
         "the plugin uses version 99 of the environment contract and this program version 1; "
         "install the same "
         "release of both"},
        /* A step that asked for the plugin, on a node that did not load it. */
        {{"SLURM_PROCID=2", "SLURM_NTASKS=4", "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=n[1-2]",
          "SLURM_SPANK_MEGATRON_CLIENT=version=0.1.0", "SLURMD_NODENAME=n2", "SLURM_LOCALID=0"},
         NULL,
         0,
         0,
         "n2: srun asked for the plugin, but slurmd did not load spank_megatron.so on this node "
         "(its log may have the reason); install the plugin for this Slurm there, leave the node "
         "out with srun --exclude, or use srun --megatron-off"},
        {{"SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=n[1-2]",
          "SLURM_SPANK_MEGATRON_CLIENT=version=0.1.0", "SLURMD_NODENAME=n2", "SLURM_LOCALID=1"},
         NULL,
         0,
         0,
         ""},
        /* The srun of a job that asked for it did not. */
        {{"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=n[1-2]",
          "SLURM_SPANK_MEGATRON_JOB=1", "SLURM_LAUNCH_NODE_IPADDR=10.0.3.17"},
         NULL,
         0,
         0,
         "the job asked for the plugin, but srun did not load spank_megatron.so on 10.0.3.17, "
         "where it was started; install the plugin for this Slurm there, or submit the job without "
         "its options"},
        {{"SLURM_PROCID=2", "SLURM_NTASKS=4", "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=n[1-2]",
          "SLURM_SPANK_MEGATRON_JOB=1", "SLURM_LOCALID=0"},
         NULL,
         0,
         0,
         ""},
        /* Batch scripts are never placed. */
        {{"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_SPANK_MEGATRON_JOB=1"}, "default", 0, 1, NULL},
        {{"MEGATRON_TP=0"}, NULL, 0, 0, "MEGATRON_TP=0 is out of range; use 1 to 2147483647"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world world;
        struct error err = {.text = ""};
        int rc;

        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
            unsetenv(names[k]);
        for (size_t k = 0; rows[i].environment[k]; k++)
            putenv((char *)rows[i].environment[k]);
        rc = world_read(&world, &err);
        is_int(rc, rows[i].error ? -1 : 0, "world_read");
        if (rows[i].error) {
            is(err.quiet ? "" : err.text, rows[i].error, "what this rank prints");
            continue;
        }
        is(world.source, rows[i].source, "source");
        is_int(world.rank, rows[i].rank, "rank");
        is_int(world.size, rows[i].size, "size");
    }
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
        unsetenv(names[k]);
    test_tasks_per_node();
    test_say_once();
    return done_testing();
}
