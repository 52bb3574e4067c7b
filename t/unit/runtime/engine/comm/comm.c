/* SPDX-License-Identifier: Apache-2.0 */
/* Opening backends by name: what is rejected before any library is opened. */
#include "engine/comm/comm.h"
#include "tap.h"

#include <stdlib.h>

static void test_refused(void)
{
    static const struct {
        const char *name;
        struct comm_options options;
        const char *part; /* of the error */
    } rows[] = {
        {"gloo", {.size = 2}, "unknown communication backend gloo; use self, tcp or nccl"},
        {"nccl", {.size = 8}, "cannot determine which node runs rank 0 of 8"},
        {"nccl", {.size = 2, .master = "host"}, "MASTER_ADDR and MASTER_PORT"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = {.text = ""};

        ok(!comm_open(rows[i].name, &rows[i].options, &err), "%s is rejected", rows[i].name);
        ok(strstr(err.text, rows[i].part) != NULL, "with the remedy: %s", err.text);
    }
}

/* A task of srun without the plugin, which the user can ask for. */
static void test_plain_srun(void)
{
    struct error err = {.text = ""};

    setenv("SLURM_STEP_ID", "0", 1);
    setenv("SLURM_STEP_NODELIST", "n1", 1);
    setenv("SLURM_PROCID", "0", 1);
    ok(!comm_open("tcp", &(struct comm_options){.size = 2}, &err) && err.code == ERROR_USAGE,
       "ranks of srun without the plugin are rejected: the user must change the command");
    is(err.text,
       "cannot determine which node runs rank 0 of 2; add a --megatron option to srun, such as "
       "--megatron-tp=1, or set MASTER_ADDR and "
       "MASTER_PORT for all ranks",
       "with a remedy");
}

/* These tests may run in a task of srun or of a launcher. */
static void clear_environment(void)
{
    static const char *const names[] = {"MEGATRON_RANK",        "SLURM_PROCID",
                                        "SLURM_STEP_ID",        "SLURM_STEP_NODELIST",
                                        "OMPI_COMM_WORLD_RANK", "RANK"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
}

int main(void)
{
    struct error err;
    struct comm *comm;

    clear_environment();
    comm = comm_open("self", &(struct comm_options){.size = 1}, &err);
    ok(comm != NULL, "one rank needs no address");
    comm_close(comm);
    test_refused();
    test_plain_srun();
    return done_testing();
}
