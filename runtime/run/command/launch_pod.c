/* SPDX-License-Identifier: Apache-2.0 */
/* Which pod this is, from the variables of the launcher: an Indexed Job of Kubernetes, srun or
 * none. Operators with other variables are served by options. */
#include "lib/clock.h"
#include "lib/contract.h"
#include "launch.h"
#include "base/core/log.h"
#include "lib/parse.h"
#include "base/core/world.h"

#include <inttypes.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DEFAULT_PORT = 29500 };

/* The variables of a kind. The first one decides whether it is this kind. */
struct kind {
    const char *name;
    const char *node_rank, *nodes;
    const char *what; /* for messages */
};

static const struct kind kinds[] = {
    {"job", "JOB_COMPLETION_INDEX", "NNODES", "an Indexed Job"},
    {"slurm", "SLURM_NODEID", "SLURM_STEP_NUM_NODES", "srun"},
    {"none", NULL, "NNODES", "one machine"},
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
static bool is_present(const struct kind *kind)
{
    if (strcmp(kind->name, "slurm") == 0 && !value_of("SLURM_STEP_NODELIST"))
        return false;
    return !kind->node_rank || value_of(kind->node_rank);
}

static const struct kind *find_kind(const char *name, struct error *err)
{
    for (int i = 0; i < KINDS; i++)
        if (name ? strcmp(kinds[i].name, name) == 0 : is_present(&kinds[i]))
            return &kinds[i];
    error_set_code(err, ERROR_USAGE, "--kind=%s is unknown; use auto, job, slurm or none", name);
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

/* A process per rank was started already, or pods that this process cannot number. */
static int check_alone(const struct launch_options *given, const struct kind *kind,
                       struct error *err)
{
    static const char *const others[] = {"PET_NNODES", "OMPI_COMM_WORLD_RANK", "RANK"};
    const char *local = value_of("SLURM_LOCALID");

    if (strcmp(kind->name, "slurm") == 0) {
        if (local && strcmp(local, "0") != 0)
            return error_set_code(err, ERROR_USAGE,
                                  "srun has started several processes on this node; use "
                                  "--ntasks-per-node=1, or run the command without megatron "
                                  "launch");
        if (world_check_plugin(err) < 0)
            return -1;
    }
    if (value_of("TORCHELASTIC_RUN_ID"))
        return error_set_code(err, ERROR_USAGE,
                              "torchrun has started a process per rank; run the command without "
                              "megatron launch, or without torchrun");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(kind->name, "none") == 0 && given->nodes < 1 && value_of(others[i]))
            return error_set_code(err, ERROR_USAGE,
                                  "%s is set, so this may be one of several pods; number them "
                                  "with --nnodes, --node-rank and --master-addr, or unset it",
                                  others[i]);
    return 0;
}

static int read_nodes(const struct launch_options *given, const struct kind *kind,
                      struct launch_pod *pod, struct error *err)
{
    if (given->nodes > 0) {
        pod->nodes = given->nodes;
        return 0;
    }
    if (value_of(kind->nodes))
        return read_number(kind->nodes, 1, INT32_MAX, &pod->nodes, err);
    pod->nodes = 1;
    if (strcmp(kind->name, "none") == 0)
        return 0;
    return error_set_code(
        err, ERROR_USAGE,
        "the environment of %s does not contain the number of pods; set %s or --nnodes%s",
        kind->what, kind->nodes, strcmp(kind->name, "job") == 0 ? " to the Job's completions" : "");
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
    const char *master = given->master ? given->master : value_of("MASTER_ADDR");

    if (master && strlen(master) >= sizeof(pod->master))
        return error_set_code(
            err, ERROR_USAGE,
            "the name of the master node is too long: %.60s...; use a shorter one", master);
    if (master)
        strcpy(pod->master, master);
    else if (strcmp(kind->name, "job") == 0)
        name_of_first(pod->node_rank, pod->master, sizeof(pod->master));
    if (!pod->master[0] && pod->nodes == 1)
        strcpy(pod->master, "127.0.0.1");
    if (!pod->master[0])
        return error_set_code(err, ERROR_USAGE,
                              "cannot determine where rank 0 of %" PRId64
                              " pods runs; set MASTER_ADDR or --master-addr to the name of its pod",
                              pod->nodes);
    if (given->port > 0)
        pod->port = given->port;
    else if (read_number("MASTER_PORT", 1, 65535, &pod->port, err) < 0)
        return -1;
    if (pod->port == 0 && pod->nodes > 1)
        pod->port = DEFAULT_PORT;
    return 0;
}

int launch_find_pod(const struct launch_options *given, struct launch_pod *pod, struct error *err)
{
    bool automatic = !given->kind || strcmp(given->kind, "auto") == 0;
    const struct kind *kind = find_kind(automatic ? NULL : given->kind, err);

    if (!kind)
        return -1;
    *pod = (struct launch_pod){.nproc = value_of("NPROC_PER_NODE")};
    if (!is_present(kind) && given->node_rank < 0)
        return error_set_code(
            err, ERROR_USAGE,
            "--kind=%s, but %s is not set: %s has not started this process; use --kind auto",
            given->kind, kind->node_rank, kind->what);
    if (check_alone(given, kind, err) < 0 ||
        read_number("WORLD_SIZE", 1, INT32_MAX, &pod->world_size, err) < 0 ||
        read_number(kind->node_rank, 0, INT32_MAX, &pod->node_rank, err) < 0)
        return -1;
    if (given->node_rank >= 0)
        pod->node_rank = given->node_rank;
    if (read_nodes(given, kind, pod, err) < 0)
        return -1;
    if (pod->node_rank >= pod->nodes)
        return error_set_code(
            err, ERROR_USAGE,
            "this is pod %" PRId64 " of only %" PRId64 ": %s contradicts the number of pods%s%s",
            pod->node_rank, pod->nodes, given->node_rank >= 0 ? "--node-rank" : kind->node_rank,
            given->nodes > 0 ? " in --nnodes" : "",
            given->nodes > 0 ? "; correct one of the two" : "; check its variables");
    return read_master(given, kind, pod, err);
}

int launch_check_world(const struct launch_pod *pod, int64_t nproc, struct error *err)
{
    int64_t ranks = pod->nodes * nproc;

    if (pod->world_size == 0 || pod->world_size == ranks || pod->world_size == pod->nodes)
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
    bool told = false;
    int rc;

    while ((rc = getaddrinfo(master, NULL, &hints, &found))) {
        double waited = clock_now() - began;

        if (waited >= (double)seconds)
            return error_set(err,
                             "cannot resolve %s, the name of the pod with rank 0, within %" PRId64
                             " s: %s; check the headless Service and the subdomain of the pods",
                             master, seconds, gai_strerror(rc));
        if (!told && waited > 5) {
            log_note("waiting for DNS to resolve %s: %s", master, gai_strerror(rc));
            told = true;
        }
        if (sigtimedwait(mask, NULL, &pause) > 0)
            return 1;
        if (pause.tv_sec < 2 && waited > 2)
            pause = (struct timespec){2, 0};
    }
    freeaddrinfo(found);
    return 0;
}
