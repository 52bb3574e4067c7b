/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "commands.h"
#include "lib/contract.h"
#include "launch.h"
#include "base/core/option_rows.h"
#include "lib/parse.h"
#include "lib/port.h"
#include "engine/comm/secret.h"
#include "lib/token.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LEAST_SECRET = 16, MOST_SECRET = 1024, MOST_RANKS = 4096 };

#define AT(field) offsetof(struct launch_options, field)
/* clang-format off */
static const struct option table[] = {
    HEADING("Ranks"),
    TEXT("nproc-per-node", nproc, "N|gpu|auto", "ranks in this pod: a number, gpu (one per GPU) or auto (gpu, or 1 without GPUs); default: the environment's, else auto"),
    TEXT("bind", bind, "POLICY", "binding policy: auto, none, gpu, numa, core or lists of CPUs, as for megatron topo"),
    TEXT("nics", nics, "POLICY", "NIC policy: auto, none, all or lists of NICs"),
    FLAG("no-label", no_label, "do not prefix output lines with the rank"),
    HEADING("Pods"),
    TEXT("kind", kind, "KIND", "what started this pod: job, slurm, none or auto, from the environment (default)"),
    RANGE("nnodes", nodes, 1, INT32_MAX, "number of pods"),
    RANGE("node-rank", node_rank, 0, INT32_MAX, "index of this pod, from 0"),
    TEXT("master-addr", master, "HOST", "name or address of the pod with rank 0"),
    RANGE("master-port", port, 1, 65535, "port of rank 0 (default: 29500; with one pod any free port)"),
    NUMBER("timeout", timeout, "SECONDS", 0, 86400, "how long to wait for DNS to resolve the name of the pod with rank 0"),
    TEXT("secret-file", secret_file, "FILE", "file with the secret that all pods share (default: the variable MEGATRON_SECRET; with one pod a random one)"),
    FLAG("no-secret", no_secret, "let several pods connect without a secret"),
    HEADING("Restarts"),
    RANGE("max-restarts", starts, 0, 1000000, "give up after this many consecutive restarts without a new checkpoint; 0: never restart"),
    NUMBER("pause", pause, "SECONDS", 0, 300, "time between starts; four times longer after each start without a new checkpoint"),
    HEADING("Tests"),
    FLAG("dry-run", dry_run, "print the variables of each rank instead of starting it"),
    TEXT("topology", topology, "FILE", "hwloc XML file of another node, for --dry-run", .needs = "dry-run"),
    {0},
};
/* clang-format on */
#undef AT

/* How many ranks does this pod have? The command line overrides the environment. */
static int count_ranks(const struct launch_options *given, const struct launch_pod *pod,
                       int64_t *ranks, struct error *err)
{
    const char *text = given->nproc ? given->nproc : pod->nproc ? pod->nproc : "auto";
    const char *origin = given->nproc ? "--nproc-per-node" : "NPROC_PER_NODE";
    int automatic = strcmp(text, "auto") == 0;

    if (!automatic && strcmp(text, "gpu") != 0) {
        if (parse_int64(origin, text, 1, MOST_RANKS, ranks, err) == 0)
            return 0;
        return error_set_code(err, ERROR_USAGE, "%s=%s; use a number from 1 to %d, gpu or auto",
                              origin, text, MOST_RANKS);
    }
    if (launch_count_gpus(given, ranks, err) < 0)
        return -1;
    if (*ranks > 0)
        return 0;
    if (!automatic)
        return error_set_code(err, ERROR_USAGE,
                              "--nproc-per-node=gpu, but this pod has no GPU; request GPUs for it "
                              "(nvidia.com/gpu), or use a number of ranks on CPUs");
    *ranks = 1;
    return 0;
}

static int read_secret(const char *path, char *secret, size_t size, struct error *err)
{
    FILE *file = fopen(path, "re");

    if (!file)
        return error_set_code_errno(err, ERROR_USAGE, errno, "--secret-file: cannot open %s", path);
    errno = 0;
    if (!fgets(secret, (int)size, file))
        secret[0] = '\0';
    if (ferror(file)) {
        error_set_code_errno(err, ERROR_USAGE, errno, "--secret-file: cannot read %s", path);
        fclose(file);
        return -1;
    }
    fclose(file);
    secret[strcspn(secret, "\r\n")] = '\0';
    return 0;
}

/* The secret by which the ranks recognize each other. Several pods must be given the same one. */
static int find_secret(const struct launch_options *given, int64_t nodes, char *secret, size_t size,
                       struct error *err)
{
    const char *name = contract_name(CONTRACT_SECRET), *own = getenv(name);
    const char *path = given->secret_file ? given->secret_file : getenv("MEGATRON_SECRET_FILE");

    secret[0] = '\0';
    if (path && path[0]) {
        if (read_secret(path, secret, size, err) < 0)
            return -1;
    } else if (own && own[0]) {
        snprintf(secret, size, "%s", own);
    } else if (nodes == 1) {
        return token_create(secret) < 0 ? error_set_errno(err, errno, "cannot create a secret") : 0;
    } else if (given->no_secret) {
        snprintf(secret, size, "%s", SECRET_NONE);
    } else {
        return error_set_code(
            err, ERROR_USAGE,
            "several pods need a common secret: set %s (from a Kubernetes Secret) "
            "or --secret-file, or allow connections without one with --no-secret",
            name);
    }
    if (strlen(secret) >= LEAST_SECRET || strcmp(secret, SECRET_NONE) == 0)
        return 0;
    return error_set_code(err, ERROR_USAGE,
                          "the secret in %s has fewer than %d characters; use a longer one",
                          path && path[0] ? path : name, LEAST_SECRET);
}

/* A port that is free now, or 0 with errno set. */
static int64_t find_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int64_t port = 0;

    if (fd < 0)
        return 0;
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &length) == 0)
        port = ntohs(address.sin_port);
    close(fd);
    return port;
}

/* The port of the ranks' rendezvous. */
static int find_port(const struct launch_pod *pod, int64_t *port, struct error *err)
{
    *port = pod->port;
    if (*port == 0) {
        *port = find_free_port();
        return *port > 0 ? 0 : error_set_errno(err, errno, "cannot find a free port");
    }
    if (pod->node_rank > 0 || port_is_free(*port))
        return 0;
    return error_set(err,
                     "port %" PRId64 " is in use on this node, which runs rank 0; choose another "
                     "one for all pods with --master-port or MASTER_PORT",
                     *port);
}

/* Everything about this pod that stays the same when the ranks are restarted. */
struct session {
    const struct launch_options *given;
    struct launch_pod pod;
    struct launch_places places;
    char secret[MOST_SECRET];
    int64_t ranks, restarts;
};

static int start(void *context, const char *const *words, struct supervise_signals *signals,
                 struct error *err)
{
    struct session *s = context;
    struct launch_run run = {.pod = &s->pod,
                             .places = &s->places,
                             .secret = s->secret[0] ? s->secret : NULL,
                             .ranks = s->ranks,
                             .label = !s->given->no_label && s->pod.nodes * s->ranks > 1,
                             .restarts = s->restarts++};
    sigset_t ends;
    int rc = 0;

    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    if (s->pod.nodes > 1 && s->pod.node_rank > 0)
        rc = launch_wait_for_name(s->pod.master, s->given->timeout, &ends, err);
    signals->stopped |= rc > 0;
    if (rc != 0)
        return signals->stopped ? 128 + SIGTERM : -1;
    if (find_port(&s->pod, &run.port, err) < 0)
        return -1;
    return launch_ranks(&run, words, signals, err);
}

/* Without checkpoints a run is not restarted. */
static int run_session(struct session *s, const char *const *words, size_t count, struct error *err)
{
    struct supervise_options options = {.starts = s->given->starts, .pause = s->given->pause};
    struct supervise_run run = {.start = start, .context = s, .is_launcher = 1};
    struct supervise_signals signals;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (s->given->starts > 0 && words_value(words, "--save"))
        return supervise(&options, &run, words, count, err);
    supervise_signals_open(&signals, 1, NULL);
    return start(s, words, &signals, err);
}

static void print_variable(const char *name, const char *value)
{
    printf("  %s=%s\n", name, value);
}

static int print_ranks(const struct session *s)
{
    struct launch_run run = {.pod = &s->pod, .places = &s->places, .ranks = s->ranks};

    run.port = s->pod.port;
    for (int64_t local = 0; local < s->ranks; local++) {
        printf("rank %" PRId64 "\n", s->pod.node_rank * s->ranks + local);
        launch_environment(&run, local, print_variable);
    }
    return 0;
}

static int launch(const struct launch_options *given, const char *const *words, size_t count,
                  struct error *err)
{
    struct session s = {.given = given};
    int rc;

    if (launch_find_pod(given, &s.pod, err) < 0 || count_ranks(given, &s.pod, &s.ranks, err) < 0 ||
        launch_check_world(&s.pod, s.ranks, err) < 0 ||
        find_secret(given, s.pod.nodes, s.secret, sizeof(s.secret), err) < 0)
        return -1;
    rc = launch_place(given, s.ranks, &s.places, err);
    if (rc == 0)
        rc = given->dry_run ? print_ranks(&s) : run_session(&s, words, count, err);
    launch_places_clear(&s.places);
    return rc;
}

static int run_launch(void *context, const struct options_result *result, struct error *err)
{
    const struct launch_options *given = context;

    if (result->word_count == 0 && !given->dry_run)
        return error_set_code(err, ERROR_USAGE,
                              "no command to start; write it after --: megatron launch -- megatron "
                              "train ...");
    return launch(given, result->words, result->word_count, err);
}

const struct command command_launch = {
    .name = "launch",
    .summary = "start the ranks of a pod or machine without Slurm",
    .usage =
        "Usage: megatron launch [OPTION...] -- megatron train ...\n"
        "Start the ranks of this pod or machine, one per GPU, each bound to its GPU, NICs, cores\n"
        "and memory; end all of them when one fails, and restart from the last checkpoint.\n"
        "Use it instead of torchrun, without Slurm and without MPI.\n",
    .options = table,
    .size = sizeof(struct launch_options),
    .defaults =
        &(const struct launch_options){.node_rank = -1, .starts = 3, .pause = 5, .timeout = 600},
    .run = run_launch,
};
