/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts about jobs whose ranks report made-up facts and measures. */
#include "config.h"
#include "run/preflight/judge.h"
#include "engine/comm/hostlist.h"
#include "run/preflight/preflight_private.h"
#include "tap.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = 6 };

struct fake {
    enum hub_state states[MOST];
    char hosts[MOST][64];
    struct facts facts[MOST];
    struct measures measures[MOST];
    double ahead[MOST], uncertainty[MOST];
    int leaders[MOST];
    struct machine machine;
    struct job job;
};

/* A healthy job of one rank per node. */
static void make(struct fake *f, int nodes)
{
    memset(f, 0, sizeof(*f));
    for (int r = 0; r < nodes; r++) {
        struct measures *m = &f->measures[r];

        snprintf(f->hosts[r], sizeof(f->hosts[r]), "n%d", r + 1);
        f->leaders[r] = r;
        snprintf(f->facts[r].model, sizeof(f->facts[r].model), "CPU");
        f->facts[r].leads = 1;
        f->facts[r].gpu_index = -1;
        f->facts[r].node.open_files = 20000;
        f->facts[r].node.locked_memory = UINT64_MAX;
        f->facts[r].node.gpudirect = -1;
        m->processor = (struct processor){.core = 1e9, .memory = 1e10};
        m->layer = (struct layer_result){.rate = 100, .hash = 42, .steps = 30};
        m->sees_files = 1;
        m->disk_free = (int64_t)100 << 30;
        m->disk_rate = 1e8;
        for (int i = 0; i < 2; i++)
            m->pairs[i] = (struct pair_result){.tried = 1, .rate = 1e9, .segments = 100000};
    }
    f->machine = machine_usual();
    f->machine.gpus = 0;
    f->machine.limits = machine_usual_limits(0);
    f->job = (struct job){.size = nodes,
                          .states = f->states,
                          .hosts = (const char(*)[64])f->hosts,
                          .facts = f->facts,
                          .measures = f->measures,
                          .ahead = f->ahead,
                          .uncertainty = f->uncertainty,
                          .leaders = f->leaders,
                          .nodes = nodes,
                          .full_ring = 1,
                          .machine = &f->machine};
}

/* "n2 results!, n3 disk?" with ! for a failure and ? for a warning, sorted by severity. */
static void expect(struct fake *f, const char *expected, const char *name)
{
    struct findings findings = {0};
    char got[512] = "";

    judge(&f->job, &findings);
    for (size_t i = 0; i < findings.count; i++) {
        const struct finding *found = &findings.items[i];
        size_t used = strlen(got);

        if (found->verdict != VERDICT_OK)
            snprintf(got + used, sizeof(got) - used, "%s%s %s%c", used ? ", " : "", found->host,
                     found->check, found->verdict == VERDICT_FAIL ? '!' : '?');
    }
    is(got, expected, name);
    findings_clear(&findings);
}

/* What is said about one check of one host. */
static void expect_value(struct fake *f, const char *host, const char *check, const char *expected)
{
    struct findings findings = {0};
    const char *value = "";

    judge(&f->job, &findings);
    for (size_t i = 0; i < findings.count; i++)
        if (strcmp(findings.items[i].host, host) == 0 &&
            strcmp(findings.items[i].check, check) == 0)
            value = findings.items[i].value;
    is(value, expected, check);
    findings_clear(&findings);
}

/* What to do about lowered clocks depends on their reasons. */
static void expect_clocks(struct fake *f, uint64_t reasons, const char *expected)
{
    struct findings findings = {0};
    const char *advice = "";

    f->measures[0].gpu[0].slow_reasons = reasons;
    judge(&f->job, &findings);
    for (size_t i = 0; i < findings.count; i++)
        if (strcmp(findings.items[i].check, "clocks") == 0)
            advice = findings.items[i].advice;
    is(advice, expected, "advice about clocks");
    findings_clear(&findings);
}

static void slow(struct fake *f, int r, double factor)
{
    f->measures[r].layer.rate /= factor;
}

/* Both nodes of pair i see it. */
static void lossy(struct fake *f, int i)
{
    f->measures[i].pairs[0].retransmitted = 5000;
    f->measures[(i + 1) % f->job.nodes].pairs[1].retransmitted = 10;
}

static void test_speed(struct fake *f)
{
    make(f, 4);
    expect(f, "", "a healthy job");
    slow(f, 2, 1.4);
    expect(f, "n3 layer speed?", "a slow node is warned about");
    slow(f, 2, 1.5);
    expect(f, "n3 layer speed!", "a slower one fails");
    make(f, 4);
    for (int r = 0; r < 4; r++)
        slow(f, r, 100);
    expect(f, "", "a slow machine is healthy: only differences count");
    make(f, 2);
    slow(f, 0, 3);
    expect(f, "n1 layer speed!", "of two nodes the slower one fails");
    make(f, 4);
    snprintf(f->facts[3].model, sizeof(f->facts[3].model), "Old CPU");
    slow(f, 3, 3);
    expect(f, "", "devices of another model are not compared");
    make(f, 4);
    f->machine.limits = machine_usual_limits(1);
    slow(f, 1, 1.07);
    expect(f, "n2 layer speed!", "GPUs are more alike: 7 % fail");
    make(f, 4);
    f->measures[1].processor.held = 0.5;
    f->measures[2].processor.waiting = 0.5;
    expect(f, "n2 held back!, n3 waiting?", "a rank that is held back, and one that waits");
    make(f, 4);
    for (int r = 0; r < 4; r++)
        f->measures[r].processor.waiting = 0.2 + 0.1 * r;
    expect(f, "", "on a busy machine all ranks wait");
    for (int r = 0; r < 4; r++)
        f->measures[r].processor.waiting = 1;
    expect(f, "n1 waiting?, n2 waiting?, n3 waiting?, n4 waiting?", "but none should wait always");
    make(f, 1);
    f->measures[0].processor.waiting = 1;
    expect(f, "n1 waiting?", "not even if it is alone");
}

static void test_results(struct fake *f)
{
    make(f, 5);
    for (int r = 1; r < 5; r += 2) {
        snprintf(f->facts[r].model, sizeof(f->facts[r].model), "Old CPU");
        f->measures[r].layer.hash = 7;
    }
    expect(f, "", "results of two models of devices differ");
    f->measures[4].layer.hash = 7;
    expect(f, "n5 results!", "  but not those of one");
    make(f, 4);
    f->measures[3].layer.hash = 43;
    expect(f, "n4 results!", "a wrong result");
    make(f, 4);
    f->measures[0].layer.unstable = 2;
    expect(f, "n1 results!", "a result that changes");
    make(f, 2);
    f->measures[0].layer.hash = 43;
    expect(f, "n1 results!, n2 results!", "two nodes that differ: both are suspect");
    make(f, 3);
    snprintf(f->measures[1].trouble, sizeof(f->measures[1].trouble), "no device");
    f->measures[1].layer.steps = 0;
    f->measures[1].layer.rate = 0;
    expect(f, "n2 device!", "a device that cannot be opened");
}

static void test_nodes(struct fake *f)
{
    make(f, 3);
    f->states[2] = HUB_SILENT;
    f->states[1] = HUB_EXCLUDED;
    f->job.nodes = 1;
    expect(f, "n2 program!, n3 answers!", "ranks that do not answer, or in another version");
    make(f, 3);
    snprintf(f->facts[0].node.driver, sizeof(f->facts[0].node.driver), "1");
    expect(f, "n1 driver!", "a driver that the others do not have");
    make(f, 3);
    for (int r = 0; r < 3; r++)
        f->facts[r].node.nics = r == 1 ? 3 : 4;
    expect(f, "n2 nics!", "fewer NICs than the others");
    f->machine.nics = 8;
    snprintf(f->machine.name, sizeof(f->machine.name), "known");
    expect(f, "n1 nics!, n2 nics!, n3 nics!", "fewer NICs than the node kind has");
    make(f, 3);
    f->ahead[1] = 3;
    f->ahead[2] = 3;
    f->uncertainty[2] = 2.9;
    expect(f, "n2 clock?", "a clock that is certainly wrong");
    f->ahead[1] = -30;
    expect(f, "n2 clock!", "a clock that is far behind");
    make(f, 3);
    f->measures[0].sees_files = 0;
    f->measures[1].disk_rate = 0;
    f->measures[2].disk_free = 1 << 20;
    expect(f, "n1 shared files!, n2 disk!, n3 disk space?", "files and disks");
    make(f, 2);
    f->facts[0].node.nics = f->facts[1].node.nics = 1;
    f->facts[0].node.locked_memory = 65536;
    f->facts[1].node.open_files = 256;
    f->measures[1].after = (struct counter_facts){2, {{"mlx5_0", 90, 0}, {"mlx5_1", 12, 3}}};
    f->facts[1].node.before = (struct counter_facts){2, {{"mlx5_1", 5, 3}, {"mlx5_0", 90, 0}}};
    f->facts[0].node.nics_down = 1;
    snprintf(f->facts[0].node.first_down, sizeof(f->facts[0].node.first_down), "mlx5_7");
    expect(f, "n1 locked memory!, n1 nic state!, n2 nic counters?, n2 open files?",
           "limits and NICs");
    expect_value(f, "n1", "nic state", "1 of 1 NICs are down: mlx5_7");
    expect_value(f, "n2", "nic counters", "mlx5_1: 7 errors, 0 link-down events during the test");
    expect_value(f, "n1", "nic counters", "0 errors, 0 link-down events during the test");
    f->measures[1].after.ports[0].downs = 2;
    expect_value(f, "n2", "nic counters",
                 "mlx5_0: 0 errors, 2 link-down events during the test; other NICs with errors: 1");
    f->measures[1].after.ports[0] = (struct port_counters){"mlx5_0", 4, 0};
    f->measures[1].after.count = 1;
    expect_value(f, "n2", "nic counters",
                 "mlx5_1: 0 errors, 1 link-down events during the test; other NICs with errors: 1");
}

static void test_network(struct fake *f)
{
    make(f, 4);
    lossy(f, 1);
    expect(f, "n2 network loss?, n3 network loss?", "one bad pair is a link");
    lossy(f, 2);
    expect(f, "n3 network loss!", "two bad pairs name the node that they share");
    make(f, 3);
    lossy(f, 0);
    lossy(f, 2);
    expect(f, "n1 network loss!", "in a ring of three, too");
    make(f, 2);
    lossy(f, 0);
    expect(f, "n1 network loss!, n2 network loss!", "of two nodes either may be bad");
    make(f, 5);
    for (int i = 3; i < 5; i++) {
        f->measures[i].pairs[0].failed = 1;
        f->measures[(i + 1) % 5].pairs[1].failed = 1;
    }
    expect(f, "n5 network!", "a node that no neighbor can connect to");
    make(f, 4);
    f->states[3] = HUB_ENDED;
    for (int i = 2; i < 4; i++) {
        f->measures[i].pairs[0].failed = 1;
        f->measures[(i + 1) % 4].pairs[1].failed = 1;
    }
    expect(f, "n4 answers!", "the neighbors of a node that has ended are healthy");
    f->measures[0].pairs[0].rate = f->measures[1].pairs[1].rate = 1e8;
    expect(f, "n4 answers!, n1 network?, n2 network?", "one bad pair beside it is a link");
    make(f, 4);
    f->machine.limits.pair_all_reduce = 100e9;
    for (int r = 0; r < 4; r++)
        f->measures[r].pair_reduce[0] = r == 0 || r == 3 ? 50e9 : 200e9;
    expect(f, "n1 pair all-reduce!", "slow collectives with both neighbors");
    make(f, 3);
    for (int r = 0; r < 3; r++)
        snprintf(f->measures[r].comm_trouble, 16, "no MPI");
    expect(f, "n1 collectives?, n2 collectives?, n3 collectives?",
           "collectives that fail everywhere are nobody's fault");
    f->measures[1].comm_trouble[0] = '\0';
    expect(f, "n1 collectives!, n3 collectives!", "those that fail on some nodes are");
}

static void test_gpus(struct fake *f)
{
    struct gpu_state *gpu;

    make(f, 1);
    f->facts[0].node.gpu_count = f->facts[0].node.gpus = 1;
    gpu = &f->measures[0].gpu[0];
    *gpu = (struct gpu_state){.width = 16, .most_width = 16, .generation = 4, .most_generation = 5};
    f->facts[0].node.gpu[0] = *gpu;
    gpu->slow_reasons = 1 | 4;
    expect(f, "", "idle clocks, the power limit and a link that saves power are normal");
    f->facts[0].gpu_index = 0;
    expect(f, "n1 pcie!", "but under load the link must be at its full rate");
    gpu->generation = 5;
    gpu->slow_reasons = SLOW_POWER_BRAKE;
    gpu->uncorrected = 1;
    gpu->rows_pending = 1;
    gpu->links_up = 17;
    gpu->links_down = 1;
    f->facts[0].node.xid_count = 2;
    f->facts[0].node.xids[0] = (struct xid_facts){"0000:53:00", 79, 1};
    f->facts[0].node.xids[1] = (struct xid_facts){"0000:53:00", 13, 1};
    expect(f, "n1 clocks!, n1 ecc!, n1 nvlink!, n1 xid!, n1 remapped rows?", "a broken GPU");
    expect_clocks(f, SLOW_POWER_BRAKE, "check the node's power supplies");
    expect_clocks(f, SLOW_SOFT_HEAT, "check fans, air flow and the cooling of this node");
    expect_clocks(f, SLOW_HARDWARE, "check the cooling and the power supplies of this node");
}

static void test_hosts(void)
{
    static const struct {
        const char *list;
        int64_t index;
        const char *name; /* NULL: an error */
    } rows[] = {
        {"n1", 0, "n1"},
        {"n1", 1, NULL},
        {"n[1-3]", 2, "n3"},
        {"n[1-3]", 3, NULL},
        {"n[08-11,20]", 3, "n11"},
        {"n[08-11,20]", 0, "n08"},
        {"n[08-11,20]", 4, "n20"},
        {"a,b[2-3]-x,c", 2, "b3-x"},
        {"a,b[2-3]-x,c", 3, "c"},
        {"n[1", 0, NULL},
        {"n[]", 0, NULL},
        {"n[3-1]", 0, NULL},
        {"", 0, NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char name[64];
        int rc = hostlist_at(rows[i].list, rows[i].index, name, sizeof(name));

        if (rows[i].name)
            ok(strcmp(name, rows[i].name) == 0, "host %d of %s is %s", (int)rows[i].index,
               rows[i].list, name);
        else
            ok(rc < 0, "host %d of %s does not exist", (int)rows[i].index, rows[i].list);
    }
}

/* A rank sends bytes without zeros and counts beyond the arrays: nothing outside of them is read.
 */
static void test_hostile(void)
{
    struct fake *f = malloc(sizeof(*f));
    struct findings findings = {0};
    int whole = 1;

    make(f, 3);
    memset(&f->facts[1], 'x', sizeof(f->facts[1]));
    memset(&f->measures[1], 'x', sizeof(f->measures[1]));
    facts_limit(&f->facts[1]);
    measures_limit(&f->measures[1]);
    whole = f->facts[1].node.gpu_count == FACTS_GPUS && f->facts[1].node.xid_count == FACTS_XIDS &&
            f->facts[1].node.before.count == FACTS_PORTS &&
            f->measures[1].after.count == FACTS_PORTS &&
            strlen(f->facts[1].host) == FACTS_NAME - 1 && strlen(f->facts[1].model) == 127 &&
            strlen(f->facts[1].node.nvml) == ERROR_TEXT - 1 &&
            strlen(f->facts[1].node.gpu[FACTS_GPUS - 1].bus) == 23 &&
            strlen(f->measures[1].trouble) == ERROR_TEXT - 1 &&
            strlen(f->measures[1].pairs[1].reason) == 127 &&
            strlen(f->facts[1].node.address.hosts) == 1023;
    ok(whole, "texts end and counts are limited");
    ok(f->facts[1].node.gpu[0].links_up + f->facts[1].node.gpu[0].links_down > 0 &&
           f->measures[1].gpu[0].link_errors - -1 > 0,
       "sums of other numbers do not overflow");
    judge(&f->job, &findings);
    ok(findings.count > 0, "and are judged");
    findings_clear(&findings);
    free(f);
}

static void test_ring(void)
{
    int wrong = 0;

    for (int nodes = 1; nodes < 12; nodes++) {
        int seen[12] = {0};

        for (int round = 0; round < PAIRS_ROUNDS; round++)
            for (int node = 0; node < nodes; node++) {
                int pair = pairs_of_round(nodes, node, round);

                if (pair < 0)
                    continue;
                seen[pair]++;
                wrong += pair != node && pairs_right(nodes, pair) != node;
                /* The other node must be in the same pair. */
                wrong += pairs_of_round(nodes, pair == node ? pairs_right(nodes, pair) : pair,
                                        round) != pair;
            }
        for (int pair = 0; pair < pairs_count(nodes); pair++)
            wrong += seen[pair] != 2;
    }
    ok(wrong == 0, "both nodes of every pair meet once, in rings of 1 to 11 nodes");
}

/* One verdict per host and check, the most severe, also after sorting, however many there are. */
static void test_findings(void)
{
    enum { HOSTS = 3000 };
    struct findings findings = {0};
    struct finding f = {.check = "disk"};
    int wrong = 0;

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < HOSTS; i++) {
            snprintf(f.host, sizeof(f.host), "n%d", i);
            f.verdict = round == 1 && i % 3 == 0 ? VERDICT_FAIL : VERDICT_OK;
            findings_add(&findings, &f);
        }
        findings_sort(&findings);
    }
    is_int((long long)findings.count, HOSTS, "each host has one verdict");
    for (size_t i = 0; i < findings.count; i++) {
        int host = atoi(findings.items[i].host + 1);

        wrong += findings.items[i].verdict != (host % 3 == 0 ? VERDICT_FAIL : VERDICT_OK);
        wrong += i > 0 && i != HOSTS / 3 && host <= atoi(findings.items[i - 1].host + 1);
    }
    is_int(wrong, 0, "  the most severe one, in order");
    findings_clear(&findings);
}

/* Texts of other layers are printed whole: their remedy is at the end. */
static void test_texts(struct fake *f)
{
    char expected[ERROR_TEXT + 16];

    make(f, 2);
    memset(f->measures[1].trouble, 'x', ERROR_TEXT - 1);
    snprintf(expected, sizeof(expected), "rank 1: %s", f->measures[1].trouble);
    expect_value(f, "n2", "device", expected);
    make(f, 2);
    memset(f->measures[1].comm_trouble, 'y', ERROR_TEXT - 1);
    snprintf(expected, sizeof(expected), "rank 1: %s", f->measures[1].comm_trouble);
    expect_value(f, "n2", "collectives", expected);
    make(f, 1);
    f->facts[0].node.gpus = 1;
    memset(f->facts[0].node.nvml, 'z', ERROR_TEXT - 1);
    expect_value(f, "n1", "nvml", f->facts[0].node.nvml);
    make(f, 2);
    memset(f->hosts[1], 'h', 63);
    f->measures[0].pairs[0].failed = f->measures[1].pairs[1].failed = 1;
    for (int i = 0; i < 2; i++)
        memset(f->measures[i].pairs[i].reason, 'r', sizeof(f->measures[i].pairs[i].reason) - 1);
    snprintf(expected, sizeof(expected), "to %s: %s", f->hosts[1], f->measures[0].pairs[0].reason);
    expect_value(f, "n1", "network", expected);
}

/* The command line is wrong if it is so on all nodes; otherwise a node is. */
static void test_mistakes(struct fake *f)
{
    static const struct {
        const char *name;
        int scratch_named, device, machine_gpus;
        int errors[2], gpus[2]; /* of both nodes */
        const char *trouble, *mistake;
    } rows[] = {
        {"nothing is wrong", 1, DEVICE_CUDA, 0, {0, 0}, {0, 0}, "", ""},
        {"a wrong path",
         1,
         DEVICE_CPU,
         0,
         {ENOENT, ENOENT},
         {0, 0},
         "",
         "cannot create a file in /s: No such file or directory"},
        {"a path that is wrong in two ways",
         1,
         DEVICE_CPU,
         0,
         {EACCES, ENOENT},
         {0, 0},
         "",
         "cannot create a file in /s: Permission denied"},
        {"a path that one node lacks", 1, DEVICE_CPU, 0, {0, ENOENT}, {0, 0}, "", ""},
        {"a broken disk on all nodes", 1, DEVICE_CPU, 0, {EIO, EIO}, {0, 0}, "", ""},
        {"a full disk on one of them", 1, DEVICE_CPU, 0, {ENOENT, ENOSPC}, {0, 0}, "", ""},
        {"a path that nobody named", 0, DEVICE_CPU, 0, {ENOENT, ENOENT}, {0, 0}, "", ""},
        {"CUDA on nodes without GPUs",
         1,
         DEVICE_CUDA,
         0,
         {0, 0},
         {0, 0},
         "no driver",
         "no node has an NVIDIA GPU: no driver"},
        {"a GPU without a driver", 1, DEVICE_CUDA, 0, {0, 0}, {1, 0}, "no driver", ""},
        {"a kind that has GPUs", 1, DEVICE_CUDA, 8, {0, 0}, {0, 0}, "no driver", ""},
        {"no GPU, by default", 1, DEVICE_AUTO, 0, {0, 0}, {0, 0}, "no driver", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct preflight_options options = {.scratch = "/s",
                                            .scratch_named = rows[i].scratch_named,
                                            .device = (enum device_choice)rows[i].device};
        struct error err = {.text = ""};

        make(f, 3);
        f->facts[2] = (struct facts){0}; /* a dead rank tells nothing */
        f->machine.gpus = rows[i].machine_gpus;
        for (int r = 0; r < 2; r++) {
            f->facts[r].node.scratch_error = rows[i].errors[r];
            f->facts[r].node.gpus = rows[i].gpus[r];
        }
        is_int(mistakes_check(&options, f->facts, 3, &f->machine, rows[i].trouble, &err),
               rows[i].mistake[0] ? -1 : 0, rows[i].name);
        ok(strncmp(err.text, rows[i].mistake, strlen(rows[i].mistake)) == 0 &&
               (err.code == ERROR_USAGE) == (rows[i].mistake[0] != '\0'),
           "  %s", err.text);
    }
}

/* A kind that was named but does not look right: a failure, but not one for the history. */
static void test_doubt(struct fake *f)
{
    struct preflight_options options = {.kind = "h100"};
    char path[] = "/tmp/judge.XXXXXX", line[256] = "";
    int fd = mkstemp(path);
    struct findings findings = {0};
    struct error err;
    FILE *file;

    make(f, 2);
    snprintf(f->machine.name, sizeof(f->machine.name), "h100");
    is_int(mistakes_doubt_kind(&options, f->facts, 2, &f->machine), 0, "a kind without GPUs");
    f->machine.gpus = 8;
    is_int(mistakes_doubt_kind(&options, f->facts, 2, &f->machine), 1, "no GPU at all: in doubt");
    options.kind = NULL;
    is_int(mistakes_doubt_kind(&options, f->facts, 2, &f->machine), 0, "not if nobody named it");
    options.kind = "h100";
    f->facts[1].node.gpus = 7;
    is_int(mistakes_doubt_kind(&options, f->facts, 2, &f->machine), 0, "nor if a node has GPUs");
    f->facts[1].node.gpus = 0;
    f->job.kind_in_doubt = 1;
    expect(f, "n1 gpus!, n2 gpus!", "nodes without GPUs fail");
    f->measures[1].layer.unstable = 1;
    judge(&f->job, &findings);
    ok(fd >= 0 && history_update(path, &findings, 1e9, "7", &err) == 0, "the history is written");
    file = fopen(path, "re");
    ok(file && fgets(line, sizeof(line), file), "  and has a line");
    is(line, "{\"time\":1000000000,\"host\":\"n2\",\"job\":\"7\",\"checks\":[\"results\"]}\n",
       "  for what is not in doubt only");
    ok(!file || !fgets(line, sizeof(line), file), "  and no other");
    if (file)
        fclose(file);
    findings_clear(&findings);
    close(fd);
    unlink(path);
    snprintf(line, sizeof(line), "%s.lock", path);
    unlink(line);
}

int main(void)
{
    struct fake *f = malloc(sizeof(*f));

    if (!f)
        return 1;
    test_speed(f);
    test_results(f);
    test_nodes(f);
    test_network(f);
    test_gpus(f);
    test_findings();
    test_texts(f);
    test_mistakes(f);
    test_doubt(f);
    test_hosts();
    test_hostile();
    test_ring();
    free(f);
    return done_testing();
}
