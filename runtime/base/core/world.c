/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"
#include "lib/contract.h"
#include "lib/parse.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

struct source {
    const char *name;
    const char *rank, *size, *local_rank, *local_size, *node_rank, *nodes;
};

static const struct source sources[] = {
    {"MEGATRON", "MEGATRON_RANK", "MEGATRON_WORLD_SIZE", "MEGATRON_LOCAL_RANK",
     "MEGATRON_LOCAL_SIZE", "MEGATRON_NODE_RANK", "MEGATRON_NODES"},
    {"SLURM", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL, "SLURM_NODEID",
     "SLURM_STEP_NUM_NODES"},
    {"OMPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_NODE_RANK", NULL},
    {"RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
     "GROUP_WORLD_SIZE"},
};

static int read_number(const char *name, int64_t min, int64_t max, int64_t *value,
                       struct error *err)
{
    const char *text = name ? getenv(name) : NULL;

    if (!text)
        return 0;
    return parse_int64(name, text, min, max, value, err);
}

/* slurmstepd also sets SLURM_PROCID for a batch script, and an allocation's shell may have it, too.
 */
static int is_srun_task(void)
{
    const char *step = getenv("SLURM_STEP_ID");

    return step && step[0] >= '0' && step[0] <= '9' && strlen(step) < 9 &&
           getenv("SLURM_STEP_NODELIST");
}

static const struct source *find_source(void)
{
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        if (!getenv(sources[i].rank))
            continue;
        if (strcmp(sources[i].name, "SLURM") != 0 || is_srun_task())
            return &sources[i];
    }
    return NULL;
}

int world_is_rank(void)
{
    return find_source() != NULL;
}

int world_is_plain_srun(void)
{
    const struct source *source = find_source();

    return source && strcmp(source->name, "SLURM") == 0;
}

/* Parse the number of tasks on each node of a step: "4(x2),3". Unreadable text is ignored. */
static void read_tasks_per_node(struct world *world)
{
    const char *at = getenv("SLURM_STEP_TASKS_PER_NODE");
    int64_t node = 0;

    while (at && *at) {
        char *end;
        long tasks = strtol(at, &end, 10), times = 1;

        if (end == at || tasks < 1 || tasks > world->size)
            return;
        if (strncmp(end, "(x", 2) == 0) {
            times = strtol(end + 2, &end, 10);
            if (times < 1 || *end++ != ')')
                return;
        }
        node += times;
        if (world->node_rank < node) {
            world->local_size = tasks;
            return;
        }
        at = *end == ',' ? end + 1 : NULL;
    }
}

static int read_ranks(const struct source *source, struct world *world, struct error *err)
{
    const int64_t most = INT32_MAX;

    if (read_number(source->size, 1, most, &world->size, err) < 0 ||
        read_number(source->rank, 0, world->size - 1, &world->rank, err) < 0 ||
        read_number(source->local_size, 1, world->size, &world->local_size, err) < 0 ||
        read_number(source->local_rank, 0, world->size - 1, &world->local_rank, err) < 0 ||
        read_number(source->nodes, 1, most, &world->nodes, err) < 0 ||
        read_number(source->node_rank, 0, most, &world->node_rank, err) < 0)
        return -1;
    world->source = source->name;
    if (strcmp(source->name, "SLURM") == 0)
        read_tasks_per_node(world);
    return 0;
}

/* Slurm starts a step even if it cannot load the plugin: its ranks would run unbound, and outside
 * their image. */
int world_check_plugin(struct error *err)
{
    const char *node = getenv("SLURMD_NODENAME"), *launcher = getenv("SLURM_LAUNCH_NODE_IPADDR");

    if (!is_srun_task())
        return 0;
    if (getenv(CONTRACT_MARK_CLIENT)) {
        error_set_code(err, ERROR_USAGE,
                       "%s: srun asked for the plugin, but slurmd did not load spank_megatron.so "
                       "on this node (its log may have the reason)",
                       node ? node : "?");
        return error_append(err, "; install the plugin for this Slurm there, leave the node out "
                                 "with srun --exclude, or use srun --megatron-off");
    }
    if (getenv(CONTRACT_MARK_JOB)) {
        error_set_code(err, ERROR_USAGE,
                       "the job asked for the plugin, but srun did not load spank_megatron.so on "
                       "%s, where it was started",
                       launcher ? launcher : "its node");
        return error_append(
            err,
            "; install the plugin for this Slurm there, or submit the job without its options");
    }
    return 0;
}

/* One rank per node reports that the node lacks the plugin, and rank 0 that srun did. */
static int require_plugin(const struct world *world, struct error *err)
{
    int of_node = getenv(CONTRACT_MARK_CLIENT) != NULL;

    if (world_check_plugin(err) == 0)
        return 0;
    if ((of_node ? world->local_rank : world->rank) > 0)
        error_silence(err);
    return -1;
}

int world_read(struct world *world, struct error *err)
{
    const struct source *source = find_source();
    const char *address = getenv(contract_name(CONTRACT_MASTER_ADDR));
    const char *port = address ? contract_name(CONTRACT_MASTER_PORT) : "MASTER_PORT";
    int64_t version = CONTRACT_VERSION;
    const int64_t most = INT32_MAX;

    *world = (struct world){.size = 1, .local_size = 1, .nodes = 1, .source = "default"};
    if (read_number(contract_name(CONTRACT_CONTRACT), 1, most, &version, err) < 0)
        return -1;
    if (version != CONTRACT_VERSION)
        return error_set(err,
                         "the plugin uses version %d of the environment contract and this program "
                         "version %d; install the same release of both",
                         (int)version, CONTRACT_VERSION);
    if (source && read_ranks(source, world, err) < 0)
        return -1;
    if (require_plugin(world, err) < 0)
        return -1;
    if (read_number(contract_name(CONTRACT_TP), 1, most, &world->tp, err) < 0 ||
        read_number(contract_name(CONTRACT_PP), 1, most, &world->pp, err) < 0 ||
        read_number(contract_name(CONTRACT_CP), 1, most, &world->cp, err) < 0 ||
        read_number(contract_name(CONTRACT_JOB_END), 0, INT64_MAX, &world->job_end, err) < 0 ||
        read_number(contract_name(CONTRACT_RESTARTS), 0, most, &world->restarts, err) < 0 ||
        read_number(port, 1, 65535, &world->master_port, err) < 0)
        return -1;
    world->model = getenv(contract_name(CONTRACT_MODEL));
    world->secret = getenv(contract_name(CONTRACT_SECRET));
    world->gpus = getenv(contract_name(CONTRACT_GPU));
    world->master_addr = address ? address : getenv("MASTER_ADDR");
    return 0;
}

int world_say_once(int of_node, struct error *err)
{
    struct world world;

    if (world_read(&world, NULL) == 0 && (of_node ? world.local_rank : world.rank) > 0)
        error_silence(err);
    return -1;
}

int world_die_with_parent(struct error *err)
{
    pid_t parent = getppid();

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return error_set_errno(err, errno, "cannot set the parent-death signal");
    /* The parent may have died before the call. Its PID reads as 0 in a separate PID namespace. */
    if (getppid() != parent)
        return error_set(err, "the process that started this rank has ended; see the output of "
                              "srun, mpirun or megatron launch");
    return 0;
}
