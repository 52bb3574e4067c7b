/* SPDX-License-Identifier: Apache-2.0 */
/* Which pod this is. Every launcher has its own variables: Kubeflow's TrainJob and PyTorchJob
 * (PET_* and RANK, which counts pods), Indexed Job and JobSet (JOB_COMPLETION_INDEX), mpirun, srun.
 */
#include "lib/clock.h"
#include "lib/contract.h"
#include "launch.h"
#include "base/core/log.h"
#include "lib/parse.h"
#include "base/core/world.h"

#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DEFAULT_PORT = 29500 };

/* The variables of a kind. The first one decides whether it is this kind. */
struct kind {
    const char *name;
    const char *node_rank, *nodes; /* nodes NULL: the kind does not say */
    const char *master, *port, *nproc;
    const char *local; /* NULL, or processes on this node: must be 1 */
    const char *what;  /* for messages */
};

static const struct kind kinds[] = {
    {"trainjob", "PET_NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR", "PET_MASTER_PORT",
     "PET_NPROC_PER_NODE", NULL, "a TrainJob"},
    {"job", "JOB_COMPLETION_INDEX", "NNODES", "MASTER_ADDR", "MASTER_PORT", "NPROC_PER_NODE", NULL,
     "an Indexed Job"},
    {"mpijob", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
     "NPROC_PER_NODE", "OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun"},
    {"slurm", "SLURM_NODEID", "SLURM_STEP_NUM_NODES", "MASTER_ADDR", "MASTER_PORT",
     "NPROC_PER_NODE", NULL, "srun"},
    {"pytorchjob", "RANK", "PET_NNODES", "MASTER_ADDR", "MASTER_PORT", "PET_NPROC_PER_NODE", NULL,
     "a PyTorchJob"},
    {"none", NULL, "NNODES", "MASTER_ADDR", "MASTER_PORT", "NPROC_PER_NODE", NULL, "one machine"},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static const char *value_of(const char *name)
{
    const char *value = name ? getenv(name) : NULL;

    return value && value[0] ? value : NULL;
}

static int usage(struct error *err)
{
    err->code = ERROR_USAGE;
    return -1;
}

/* srun sets SLURM_NODEID for batch scripts, too. */
static int is_present(const struct kind *kind)
{
    if (strcmp(kind->name, "slurm") == 0 && !value_of("SLURM_STEP_NODELIST"))
        return 0;
    return !kind->node_rank || value_of(kind->node_rank);
}

static const struct kind *find_kind(const char *name, struct error *err)
{
    for (int i = 0; i < KINDS; i++)
        if (name ? strcmp(kinds[i].name, name) == 0 ||
                       (strcmp(name, "jobset") == 0 && strcmp(kinds[i].name, "job") == 0)
                 : is_present(&kinds[i]))
            return &kinds[i];
    error_set_code(err, ERROR_USAGE,
                   "--kind=%s is unknown; use auto, job, jobset, trainjob, pytorchjob, mpijob, "
                   "slurm or none",
                   name);
    return NULL;
}

static int read_number(const char *name, int64_t min, int64_t max, int64_t *number,
                       struct error *err)
{
    const char *text = value_of(name);

    if (!text)
        return 0;
    return parse_int64(name, text, min, max, number, err) < 0 ? usage(err) : 0;
}

/* A process per rank was started already: by torchrun, or by mpirun or srun with several tasks. */
static int check_alone(const struct kind *kind, struct error *err)
{
    const char *local = value_of(kind->local);

    if (local && strcmp(local, "1") != 0)
        return error_set_code(err, ERROR_USAGE,
                              "%s has started %s processes on this node; start one launcher per "
                              "node (mpirun --map-by ppr:1:node), or run the command without "
                              "megatron launch",
                              kind->what, local);
    if (strcmp(kind->name, "slurm") == 0 && value_of("SLURM_LOCALID") &&
        strcmp(value_of("SLURM_LOCALID"), "0") != 0)
        return error_set_code(err, ERROR_USAGE,
                              "srun has started several processes on this node; use "
                              "--ntasks-per-node=1, or run the command without megatron launch");
    if (strcmp(kind->name, "slurm") == 0 && world_check_plugin(err) < 0)
        return -1;
    if (value_of("TORCHELASTIC_RUN_ID"))
        return error_set_code(err, ERROR_USAGE,
                              "torchrun has started a process per rank; run the command without "
                              "megatron launch, or without torchrun");
    return 0;
}

static int read_nodes(const struct launch_options *given, const struct kind *kind,
                      struct launch_pod *pod, struct error *err)
{
    const char *nodes = value_of(kind->nodes);

    if (given->nodes > 0) {
        pod->nodes = given->nodes;
        return 0;
    }
    if (nodes && strchr(nodes, ':'))
        return error_set_code(err, ERROR_USAGE,
                              "%s=%s is a range, and an elastic job does not number its pods; give "
                              "the PyTorchJob a Master, or set --nnodes and --node-rank",
                              kind->nodes, nodes);
    if (nodes)
        return read_number(kind->nodes, 1, INT32_MAX, &pod->nodes, err);
    /* Older operators: WORLD_SIZE is the number of pods. */
    if (strcmp(kind->name, "pytorchjob") == 0 && pod->world_size > 0)
        pod->nodes = pod->world_size;
    else if (strcmp(kind->name, "none") == 0)
        pod->nodes = 1;
    else
        return error_set_code(
            err, ERROR_USAGE,
            "the environment of %s does not contain the number of pods; set %s or --nnodes%s",
            kind->what, kind->nodes,
            strcmp(kind->name, "job") == 0 ? " to the Job's completions" : "");
    return 0;
}

/* The first host of an MPIJob. */
static void read_hostfile(char *host, size_t size)
{
    FILE *file = fopen("/etc/mpi/hostfile", "re");
    char line[256];

    while (file && !host[0] && fgets(line, sizeof(line), file)) {
        line[strcspn(line, " \t\r\n:")] = '\0';
        if (line[0] && line[0] != '#')
            snprintf(host, size, "%s", line);
    }
    if (file)
        fclose(file);
}

/* The pods of an Indexed Job are called NAME-INDEX.SERVICE: rank 0 is on NAME-0.SERVICE. */
static void name_of_first(int64_t index, char *host, size_t size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_CANONNAME}, *found = NULL;
    char own[256] = "", end[32];
    size_t length, tail;
    const char *domain;

    if (gethostname(own, sizeof(own) - 1) || getaddrinfo(own, NULL, &hints, &found))
        return;
    own[strcspn(own, ".")] = '\0';
    snprintf(end, sizeof(end), "-%" PRId64, index);
    length = strlen(own);
    tail = strlen(end);
    domain = found->ai_canonname ? strchr(found->ai_canonname, '.') : NULL;
    if (domain && length > tail && strcmp(own + length - tail, end) == 0)
        snprintf(host, size, "%.*s-0%s", (int)(length - tail), own, domain);
    freeaddrinfo(found);
}

static int read_master(const struct launch_options *given, const struct kind *kind,
                       struct launch_pod *pod, struct error *err)
{
    const char *master = given->master ? given->master : value_of(kind->master);

    if (!master)
        master = value_of("MASTER_ADDR");
    if (master && strlen(master) >= sizeof(pod->master))
        return error_set_code(
            err, ERROR_USAGE,
            "the name of the master node is too long: %.60s...; use a shorter one", master);
    if (master)
        strcpy(pod->master, master);
    else if (strcmp(kind->name, "mpijob") == 0)
        read_hostfile(pod->master, sizeof(pod->master));
    else if (strcmp(kind->name, "job") == 0)
        name_of_first(pod->node_rank, pod->master, sizeof(pod->master));
    if (!pod->master[0] && pod->nodes == 1)
        strcpy(pod->master, "127.0.0.1");
    if (!pod->master[0])
        return error_set_code(err, ERROR_USAGE,
                              "cannot determine where rank 0 of %" PRId64
                              " pods runs; set %s or --master-addr to the name of its pod",
                              pod->nodes, kind->master);
    if (given->port > 0)
        pod->port = given->port;
    else if (read_number(value_of(kind->port) ? kind->port : "MASTER_PORT", 1, 65535, &pod->port,
                         err) < 0)
        return -1;
    if (pod->port == 0 && pod->nodes > 1)
        pod->port = DEFAULT_PORT;
    return 0;
}

int launch_find_pod(const struct launch_options *given, struct launch_pod *pod, struct error *err)
{
    int automatic = !given->kind || strcmp(given->kind, "auto") == 0;
    const struct kind *kind = find_kind(automatic ? NULL : given->kind, err);

    if (!kind)
        return -1;
    *pod = (struct launch_pod){
        .kind = kind->name, .nproc = value_of(kind->nproc), .nproc_variable = kind->nproc};
    if (strcmp(kind->name, "none") == 0 && value_of("PET_RDZV_ENDPOINT") && given->nodes < 1)
        return error_set_code(err, ERROR_USAGE,
                              "an elastic PyTorchJob (PET_RDZV_ENDPOINT) does not number its pods; "
                              "give it a Master, or set --nnodes, --node-rank and --master-addr");
    if (!is_present(kind) && given->node_rank < 0)
        return error_set_code(
            err, ERROR_USAGE,
            "--kind=%s, but %s is not set: %s has not started this process; use --kind auto",
            given->kind, kind->node_rank, kind->what);
    if (check_alone(kind, err) < 0 ||
        read_number("WORLD_SIZE", 1, INT32_MAX, &pod->world_size, err) < 0 ||
        read_number(kind->node_rank, 0, INT32_MAX, &pod->node_rank, err) < 0)
        return -1;
    if (given->node_rank >= 0)
        pod->node_rank = given->node_rank;
    if (read_nodes(given, kind, pod, err) < 0)
        return -1;
    pod->counts_pods = !value_of("PET_NNODES");
    if (pod->node_rank >= pod->nodes)
        return error_set_code(
            err, ERROR_USAGE,
            "this is pod %" PRId64 " of only %" PRId64 ": %s contradicts the number of pods%s%s",
            pod->node_rank, pod->nodes, given->node_rank >= 0 ? "--node-rank" : kind->node_rank,
            given->nodes > 0 ? " in --nnodes" : "",
            given->nodes > 0 || !kind->nodes ? "; correct one of the two"
                                             : "; check its variables");
    return read_master(given, kind, pod, err);
}

int launch_check_world(const struct launch_pod *pod, int64_t nproc, struct error *err)
{
    int64_t ranks = pod->nodes * nproc;

    if (pod->world_size == 0 || pod->world_size == ranks ||
        (pod->counts_pods && pod->world_size == pod->nodes))
        return 0;
    return error_set_code(err, ERROR_USAGE,
                          "WORLD_SIZE=%" PRId64 " is not the number of ranks, %" PRId64
                          " (pods: %" PRId64 ", ranks per pod: %" PRId64
                          "); unset it, or correct --nnodes or --nproc-per-node",
                          pod->world_size, ranks, pod->nodes, nproc);
}

int launch_wait_for_name(const char *master, int64_t seconds, const sigset_t *mask,
                         struct error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    double began = clock_now();
    struct timespec pause = {0, 200000000};
    int told = 0, rc;

    while ((rc = getaddrinfo(master, NULL, &hints, &found))) {
        double waited = clock_now() - began;

        if (waited >= (double)seconds)
            return error_set(err,
                             "cannot resolve %s, the name of the pod with rank 0, within %" PRId64
                             " s: %s; check the headless Service and the subdomain of the pods",
                             master, seconds, gai_strerror(rc));
        if (!told && waited > 5) {
            log_note("waiting for DNS to resolve %s: %s", master, gai_strerror(rc));
            told = 1;
        }
        if (sigtimedwait(mask, NULL, &pause) > 0)
            return 1;
        if (pause.tv_sec < 2 && waited > 2)
            pause = (struct timespec){2, 0};
    }
    freeaddrinfo(found);
    return 0;
}
