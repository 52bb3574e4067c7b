/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "preflight_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/file.h"
#include "base/core/log.h"
#include "base/core/xmalloc.h"

enum { CHOICES = 16384 };

/* The first thing that ranks exchange: those of another version cannot be understood. */
struct greeting {
    char version[48];
    uint32_t facts, measures; /* sizes */
};

/* Time that one phase may take before a rank counts as dead. */
static double phase_timeout(const struct run *run)
{
    return run->options->timeout;
}

/* Time that another rank waits for rank 0, which may itself wait for a dead rank several times. */
static double rank_0_timeout(const struct run *run)
{
    return run->world->rank == 0 ? run->options->timeout : 4 * run->options->timeout + 30;
}

static int greet(struct run *run, struct error *err)
{
    struct greeting mine = {.facts = sizeof(struct facts), .measures = sizeof(struct measures)};
    int size = (int)run->world->size;
    struct greeting *all = NULL;
    int rc;

    snprintf(mine.version, sizeof(mine.version), "%s", PACKAGE_VERSION);
    if (run->world->rank == 0)
        all = xcalloc((size_t)size, sizeof(*all));
    rc = hub_collect(run->hub, &mine, all, sizeof(mine), phase_timeout(run), err);
    for (int r = 1; all && rc == 0 && r < size; r++)
        if (hub_state(run->hub, r) == HUB_ALIVE && memcmp(&all[r], &mine, sizeof(mine)) != 0)
            hub_drop(run->hub, r);
    free(all);
    return rc;
}

static void read_facts(struct run *run)
{
    struct facts *f = &run->facts;
    struct error why = {0};

    gethostname(f->host, sizeof(f->host) - 1);
    f->leads = run->world->local_rank == 0;
    f->gpu_index = -1;
    if (!f->leads)
        return;
    run->nvml = nvml_gpus_open(&why);
    facts_read_node(&f->node, run->options->root, run->nvml);
    f->node.allocated = ranks_allocated_gpus();
    if (!run->nvml)
        snprintf(f->node.nvml, sizeof(f->node.nvml), "%s", why.text);
    f->node.scratch_error = preflight_try_scratch(run->options->scratch);
    run->listener = rendezvous_listen(0, NULL, &f->node.address, NULL);
}

/* A device that cannot be opened is a verdict, not the end of the test. */
static void open_device(struct run *run)
{
    struct ranks_config config = {.device = run->options->device,
                                  .threads = 1,
                                  .deterministic = 1,
                                  .untuned = !run->options->full};
    struct error err = {0};

    if (strcmp(ranks_device(config.device), "cpu") != 0)
        run->facts.gpu_index = (int)run->world->local_rank;
    run->device = ranks_open_device(&config, run->world, &err);
    if (!run->device) {
        snprintf(run->measures.trouble, sizeof(run->measures.trouble), "%s", err.text);
        return;
    }
    snprintf(run->facts.model, sizeof(run->facts.model), "%s", run->device->model);
}

static int exchange_facts(struct run *run, struct error *err)
{
    size_t size = (size_t)run->world->size;
    int rc;

    if (run->world->rank == 0) {
        run->all_facts = xcalloc(size, sizeof(*run->all_facts));
        run->all_measures = xcalloc(size, sizeof(*run->all_measures));
        run->ahead = xcalloc(size, sizeof(*run->ahead));
        run->uncertainty = xcalloc(size, sizeof(*run->uncertainty));
        run->leaders = xcalloc(size, sizeof(*run->leaders));
    }
    rc = hub_collect(run->hub, &run->facts, run->all_facts, sizeof(run->facts), phase_timeout(run),
                     err);
    for (size_t r = 0; run->all_facts && rc == 0 && r < size; r++)
        facts_limit(&run->all_facts[r]);
    return rc;
}

static int compare_clocks(struct run *run, struct error *err)
{
    char *asked = NULL;
    int rc;

    if (!run->facts.leads && run->world->rank != 0)
        return 0;
    if (run->world->rank == 0) {
        asked = xcalloc((size_t)run->world->size, 1);
        for (int r = 1; r < run->world->size; r++)
            asked[r] = (char)run->all_facts[r].leads;
    }
    rc = hub_compare_clocks(run->hub, asked, run->ahead, run->uncertainty,
                            rank_0_timeout(run) + 0.01 * (double)run->world->size, err);
    free(asked);
    return rc;
}

/* The file that all ranks look for. It exists until the measures are collected. */
static void create_shared_file(struct run *run)
{
    struct error err;

    if (!run->options->shared || run->world->size == 1)
        return;
    snprintf(run->order.shared_file, sizeof(run->order.shared_file),
             "%.900s/.megatron-preflight.%.60s.%d", run->options->shared, run->facts.host,
             (int)getpid());
    if (file_write_whole(run->order.shared_file, "preflight\n", 10, 0, &err) < 0) {
        log_warning("the shared file system is not tested: %s", err.text);
        run->order.shared_file[0] = '\0';
    }
}

/* The node kind: as named, or by the product name of the first node, or the usual limits of what
 * the ranks compute on. */
static struct machine find_machine(const struct run *run)
{
    const struct preflight_options *o = run->options;
    const struct node_facts *node = &run->all_facts[0].node;
    const struct machine *found = NULL;
    struct machine machine = machine_usual();
    int gpu = run->all_facts[0].gpu_index >= 0;

    if (o->machines && o->kind)
        found = machines_find_any(o->machines, o->kind, NULL);
    else if (o->machines && node->kind[0])
        found = machines_find_any(o->machines, node->kind, NULL);
    if (!found && o->machines && !gpu)
        found = machines_find_any(o->machines, "cpu", NULL);
    if (found)
        return *found;
    machine.limits = machine_usual_limits(gpu);
    machine.gpus = 0;
    return machine;
}

/* On rank 0: is the command line wrong, rather than a node? */
static void look_for_mistakes(struct run *run)
{
    struct machine machine = find_machine(run);
    struct error mistake;

    if (mistakes_check(run->options, run->all_facts, (int)run->world->size, &machine,
                       run->measures.trouble, &mistake) < 0)
        snprintf(run->order.mistake, sizeof(run->order.mistake), "%s", mistake.text);
}

/* Rank 0 tells all ranks what to do; every first rank also gets the address of its right neighbor.
 */
static int give_orders(struct run *run, struct error *err)
{
    size_t size = (size_t)run->world->size;
    struct ring_position *positions = NULL;
    int rc, nodes = 0;

    if (run->world->rank == 0) {
        positions = xcalloc(size, sizeof(*positions));
        look_for_mistakes(run);
        if (!run->order.mistake[0])
            create_shared_file(run);
        for (int r = 0; r < (int)size; r++) {
            positions[r].node = -1;
            if (hub_state(run->hub, r) == HUB_ALIVE && run->all_facts[r].leads &&
                run->all_facts[r].node.address.port > 0) {
                positions[r].node = nodes;
                run->leaders[nodes++] = r;
            }
        }
        run->order.nodes = nodes;
        for (int i = 0; i < nodes; i++)
            positions[run->leaders[i]].right =
                run->all_facts[run->leaders[pairs_right(nodes, i)]].node.address;
        run->position = positions[0];
    }
    rc = hub_share(run->hub, &run->order, sizeof(run->order), rank_0_timeout(run), err);
    /* Each rank needs one position; sending all to all would be quadratic. */
    if (rc == 0)
        rc = hub_give(run->hub, positions, &run->position, sizeof(run->position),
                      rank_0_timeout(run), err);
    free(positions);
    run->order.shared_file[sizeof(run->order.shared_file) - 1] = '\0';
    run->order.mistake[sizeof(run->order.mistake) - 1] = '\0';
    if (run->order.nodes < 0 || run->position.node >= run->order.nodes)
        run->position.node = -1;
    if (rc == 0 && run->order.mistake[0]) {
        error_set_code(err, ERROR_USAGE, "%s", run->order.mistake);
        return world_say_once(0, err);
    }
    return rc;
}

/* Products are chosen by timing: all GPUs take rank 0's choices, or their results would differ. */
static int create_layer(struct run *run, struct error *err)
{
    char *choices = xcalloc(1, CHOICES), *mine = NULL;
    struct error why = {0};
    int rc = 0;

    if (run->world->rank == 0 && run->device) {
        run->layer = layer_create(run->device, NULL, &why);
        if (run->layer && run->device->choices)
            mine = run->device->choices(run->device, &why);
        if (mine && strlen(mine) < CHOICES)
            memcpy(choices, mine, strlen(mine));
        free(mine);
    }
    rc = hub_share(run->hub, choices, CHOICES, rank_0_timeout(run), err);
    choices[CHOICES - 1] = '\0';
    if (rc == 0 && run->world->rank != 0 && run->device)
        run->layer = layer_create(run->device, choices, &why);
    if (run->device && !run->layer)
        snprintf(run->measures.trouble, sizeof(run->measures.trouble), "%s", why.text);
    free(choices);
    return rc;
}

static int barrier(struct run *run, struct error *err)
{
    char token = 0, *all = run->world->rank == 0 ? xcalloc((size_t)run->world->size, 1) : NULL;
    int rc = hub_collect(run->hub, &token, all, 1, phase_timeout(run), err);

    if (rc == 0)
        rc = hub_share(run->hub, &token, 1, rank_0_timeout(run), err);
    free(all);
    return rc;
}

static void exchange_pairs(struct run *run)
{
    const int nodes = run->order.nodes, full = run->options->full;
    const double meet = phase_timeout(run) / 4;

    if (run->position.node < 0)
        return;
    for (int round = 0; round < PAIRS_ROUNDS; round++) {
        int pair = pairs_of_round(nodes, run->position.node, round);
        int left = pair == run->position.node;

        /* The other node may still wait for a dead one in earlier rounds. */
        if (pair >= 0)
            pairs_exchange(left, left ? &run->position.right : &run->facts.node.address,
                           run->listener, full ? 2 : 0.4, meet * (round + 1) + round,
                           phase_timeout(run), &run->measures.pairs[left ? 0 : 1]);
    }
    facts_read_counters(&run->measures.after, run->options->root);
}

static int test_collectives(struct run *run, struct error *err)
{
    size_t size = (size_t)run->world->size;
    int32_t *node_of = NULL; /* of the ring, for each rank; -1: none */
    int rc;

    if (barrier(run, err) < 0)
        return -1;
    if (run->world->rank == 0) {
        node_of = xcalloc(size, sizeof(*node_of));
        for (size_t r = 0; r < size; r++) {
            node_of[r] = -1;
            for (int i = 0; i < run->order.nodes && node_of[r] < 0; i++)
                if (strcmp(run->all_facts[r].host, run->all_facts[run->leaders[i]].host) == 0)
                    node_of[r] = i;
        }
    }
    rc = fabric_measure(run->hub, run->device, run->world, node_of, run->order.nodes,
                        rank_0_timeout(run), &run->measures, err);
    free(node_of);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The number of nodes of the job, including those that did not answer. If the launcher does not
 * say, count the distinct names of hosts, and a rank without a known host as one. Sorts 'hosts'. */
static int count_nodes(const struct world *world, char (*hosts)[64])
{
    int64_t count = 0;

    if (world->nodes > 1)
        return (int)world->nodes;
    qsort(hosts, (size_t)world->size, sizeof(*hosts), by_name);
    for (int64_t r = 0; r < world->size; r++)
        count += r == 0 || !hosts[r][0] || strcmp(hosts[r], hosts[r - 1]) != 0;
    return (int)count;
}

static void conclude(struct run *run, struct findings *findings, int *nodes)
{
    size_t size = (size_t)run->world->size;
    enum hub_state *states = xcalloc(size, sizeof(*states));
    char(*hosts)[64] = xcalloc(size, sizeof(*hosts));
    struct machine machine = find_machine(run);
    struct job job = {.size = (int)size,
                      .states = states,
                      .hosts = (const char(*)[64])hosts,
                      .facts = run->all_facts,
                      .measures = run->all_measures,
                      .ahead = run->ahead,
                      .uncertainty = run->uncertainty,
                      .leaders = run->leaders,
                      .nodes = run->order.nodes,
                      .full_ring = 1,
                      .kind_in_doubt =
                          mistakes_doubt_kind(run->options, run->all_facts, (int)size, &machine),
                      .machine = &machine};

    for (int r = 0; r < job.size; r++) {
        const char *known =
            run->all_facts[r].host[0] ? run->all_facts[r].host : hub_host(run->hub, r);

        states[r] = hub_state(run->hub, r);
        snprintf(hosts[r], sizeof(hosts[r]), "%.63s", known);
        if (!hosts[r][0])
            hosts_of_rank(r, run->world, hosts[r], sizeof(hosts[r]));
    }
    judge(&job, findings);
    *nodes = count_nodes(run->world, hosts);
    free(states);
    free(hosts);
}

static int run_phases(struct run *run, struct findings *findings, int *nodes, struct error *err)
{
    double measuring = run->options->full ? 20 : 8;
    char host[256];
    int port, rc;

    if (hosts_rank_0(run->world, host, sizeof(host), &port, err) < 0)
        return -1;
    read_facts(run);
    run->hub = hub_open((int)run->world->rank, (int)run->world->size, host, port,
                        run->world->secret, phase_timeout(run), err);
    if (!run->hub || greet(run, err) < 0)
        return -1;
    open_device(run);
    if (exchange_facts(run, err) < 0 || compare_clocks(run, err) < 0 || give_orders(run, err) < 0 ||
        create_layer(run, err) < 0 || barrier(run, err) < 0)
        return -1;
    preflight_measure(run);
    exchange_pairs(run);
    if (run->options->full && test_collectives(run, err) < 0)
        return -1;
    rc = hub_collect(run->hub, &run->measures, run->all_measures, sizeof(run->measures),
                     measuring + 2 * phase_timeout(run), err);
    if (run->order.shared_file[0] && run->world->rank == 0)
        unlink(run->order.shared_file);
    for (int64_t r = 0; run->all_measures && rc == 0 && r < run->world->size; r++)
        measures_limit(&run->all_measures[r]);
    if (rc == 0 && run->world->rank == 0)
        conclude(run, findings, nodes);
    return rc;
}

int preflight_run(const struct preflight_options *options, const struct world *world,
                  struct findings *findings, int *nodes, struct error *err)
{
    struct run *run = xcalloc(1, sizeof(*run));
    int rc;

    run->options = options;
    run->world = world;
    run->listener = -1;
    rc = run_phases(run, findings, nodes, err);
    if (run->listener >= 0)
        close(run->listener);
    layer_destroy(run->layer);
    device_close(run->device);
    nvml_gpus_close(run->nvml);
    hub_close(run->hub);
    free(run->all_facts);
    free(run->all_measures);
    free(run->ahead);
    free(run->uncertainty);
    free(run->leaders);
    free(run);
    return rc;
}
