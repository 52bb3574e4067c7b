/* SPDX-License-Identifier: Apache-2.0 */
#include "run/preflight/preflight.h"
#include "commands.h"
#include "lib/file.h"
#include "base/core/storage.h"
#include "base/core/log.h"
#include "base/core/option_rows.h"
#include "base/core/memory_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The exit code if a node failed. */
#define EXIT_SICK 3

struct settings {
    const char *node, *machines, *shared, *scratch, *records, *history, *exclude, *root;
    int json, all, device;
    int64_t spares, timeout;
};

#define AT(field) offsetof(struct settings, field)
static const struct option table[] = {
    HEADING("Tests"),
    WORD("device", device, "auto|cpu|cuda", "auto|cpu|cuda", "device to test",
         .otherwise = "cuda if the node has a GPU"),
    TEXT("node", node, "KIND",
         "kind of the nodes, for limits and counts (default: by the machine's product name)"),
    TEXT("machines", machines, "DIR",
         "directory of machine files (default: MEGATRON_MACHINES, or those installed)"),
    TEXT("shared", shared, "DIR", "directory that all nodes must share (default: the current one)"),
    TEXT("scratch", scratch, "DIR", "directory on the local disk (default: TMPDIR, or /tmp)"),
    RANGE("timeout-seconds", timeout, 1, 3600,
          "treat a rank as dead if it does not answer for this long"),
    TEXT("sysroot", root, "DIR",
         "read /proc, /sys and /dev below DIR, as in a container that mounts the host's (default: "
         "/)"),
    HEADING("Output"),
    FLAG("all", all, "print the checks that passed, too"),
    FLAG("json", json, "print all verdicts as one JSON object"),
    TEXT("records", records, "FILE",
         "append the verdicts to FILE (*.jsonl), which megatron report reads"),
    TEXT("history", history, "FILE",
         "record failed nodes in FILE; \"none\" disables this (default: "
         "~/.cache/megatron/preflight.jsonl)"),
    HEADING("After the test"),
    RANGE("spares", spares, 0, 1000000,
          "succeed if at most N nodes failed, since the job can exclude them (default: 0)"),
    TEXT("exclude-file", exclude, "FILE",
         "write the names of the failed nodes to FILE, as srun --exclude takes them"),
    {0},
};
#undef AT

/* Output -----------------------------------------------------------------------------------------
 */

/* Is this the first failed check of a host? Findings are sorted. */
static bool begins_failed(const struct findings *findings, size_t i)
{
    const struct finding *f = &findings->items[i];

    return f->verdict == VERDICT_FAIL && (i == 0 || strcmp(f->host, f[-1].host) != 0);
}

/* The hosts with a failed check, in the order of the findings, separated by commas. Returns how
 * many. */
static int list_failed(const struct findings *findings, FILE *out)
{
    int count = 0;

    for (size_t i = 0; i < findings->count; i++)
        if (begins_failed(findings, i))
            fprintf(out, "%s%s", count++ ? "," : "", findings->items[i].host);
    return count;
}

static int count_failed(const struct findings *findings)
{
    int count = 0;

    for (size_t i = 0; i < findings->count; i++)
        count += begins_failed(findings, i);
    return count;
}

static void print_json(const struct findings *findings, int ranks, int nodes, bool full)
{
    struct json_writer json = {.stream = stdout};

    json_open(&json, NULL, '{');
    json_put_string(&json, "verdict", verdict_name(findings_worst(findings, NULL)));
    json_put_string(&json, "form", full ? "full" : "quick");
    json_put_integer(&json, "ranks", ranks);
    json_put_integer(&json, "nodes", nodes);
    json_open(&json, "failed", '[');
    for (size_t i = 0; i < findings->count; i++)
        if (begins_failed(findings, i))
            json_put_string(&json, NULL, findings->items[i].host);
    json_close(&json);
    json_open(&json, "checks", '[');
    for (size_t i = 0; i < findings->count; i++) {
        json_open(&json, NULL, '{');
        findings_put(&findings->items[i], &json);
        json_close(&json);
    }
    json_close(&json);
    json_close(&json);
    json_end_line(&json);
}

static void print_text(const struct settings *settings, const struct findings *findings, int ranks,
                       int nodes)
{
    int failed = count_failed(findings);
    size_t warned = 0;

    for (size_t i = 0; i < findings->count; i++)
        warned += findings->items[i].verdict == VERDICT_WARN;
    findings_print(findings, settings->all, stdout);
    if (failed) {
        printf("preflight: %d of %d nodes failed: ", failed, nodes > failed ? nodes : failed);
        list_failed(findings, stdout);
        printf("\n");
    } else {
        printf("preflight: %d rank%s on %d node%s passed %zu checks%s\n", ranks,
               ranks == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s", findings->count,
               warned ? ", with warnings" : "");
    }
}

static const char *default_history(char *path, size_t size)
{
    const char *cache = getenv("MEGATRON_CACHE_DIR"), *home = getenv("HOME");

    if (cache && cache[0])
        snprintf(path, size, "%s/preflight.jsonl", cache);
    else if (home && home[0])
        snprintf(path, size, "%s/.cache/megatron/preflight.jsonl", home);
    else
        return NULL;
    return path;
}

/* A history or record that cannot be written must not hide the verdicts. */
static void remember(const struct settings *settings, struct findings *findings)
{
    const char *path = settings->history, *job = getenv("SLURM_JOB_ID");
    char usual[PATH_MAX];
    struct output output;
    struct error err;

    if (!path)
        path = default_history(usual, sizeof(usual));
    if (path && strcmp(path, "none") != 0) {
        if (history_update(path, findings, (double)time(NULL), job ? job : "", &err) < 0)
            log_warning("the history is not updated: %s", err.text);
        findings_sort(findings);
    }
    if (settings->records) {
        output_open(&output);
        findings_write_records(findings, (double)time(NULL), output.stream);
        if (output_append(&output, settings->records, &err) < 0)
            log_warning("%s", err.text);
    }
}

static int report(const struct settings *settings, const struct world *world,
                  struct findings *findings, int nodes, bool full, struct error *err)
{
    struct output output;

    remember(settings, findings);
    if (settings->json)
        print_json(findings, (int)world->size, nodes, full);
    else
        print_text(settings, findings, (int)world->size, nodes);
    fflush(stdout);
    if (settings->exclude) {
        output_open(&output);
        if (list_failed(findings, output.stream) > 0)
            fputc('\n', output.stream);
        if (output_write(&output, settings->exclude, err) < 0)
            return -1;
    }
    return count_failed(findings) > settings->spares ? EXIT_SICK : 0;
}

/* ------------------------------------------------------------------------------------------------
 */

static int run(const struct settings *settings, bool full, struct error *err)
{
    const char *temporary = getenv("TMPDIR");
    struct preflight_options options = {
        .full = full,
        .device = (enum device_choice)settings->device,
        .root = settings->root ? settings->root : "",
        .shared = settings->shared ? settings->shared : ".",
        .scratch = settings->scratch         ? settings->scratch
                   : temporary && *temporary ? temporary
                                             : "/tmp",
        .scratch_named = settings->scratch != NULL,
        .kind = settings->node,
        .timeout = (double)settings->timeout,
    };
    struct machines *machines = machines_open(settings->machines, err);
    char shared[PATH_MAX];
    struct findings findings = {0};
    struct world world;
    int rc = -1, nodes = 0;

    if (!machines || (options.kind && !machines_find_any(machines, options.kind, err))) {
        world_say_once(0, err);
        goto out;
    }
    options.machines = machines;
    if (!realpath(options.shared, shared)) {
        error_set_errno(err, errno, "--shared %s", options.shared);
        err->code = ERROR_USAGE;
        world_say_once(0, err);
        goto out;
    }
    options.shared = shared;
    if (settings->root && access(settings->root, R_OK | X_OK) < 0) {
        error_set_errno(err, errno, "--sysroot %s", settings->root);
        err->code = ERROR_USAGE;
        world_say_once(1, err);
        goto out;
    }
    if (world_read(&world, err) < 0)
        goto out;
    rc = preflight_run(&options, &world, &findings, &nodes, err);
    if (rc == 0 && world.rank == 0)
        rc = report(settings, &world, &findings, nodes, full, err);
out:
    findings_clear(&findings);
    machines_destroy(machines);
    return rc;
}

static int run_preflight(void *given, const struct options_result *result, struct error *err)
{
    const char *form = result->word_count > 0 ? result->words[0] : "quick";

    if (result->word_count > 1)
        error_set_code(err, ERROR_USAGE,
                       "more than one argument (%s %s); write either quick or full",
                       result->words[0], result->words[1]);
    else if (strcmp(form, "full") == 0 || strcmp(form, "quick") == 0)
        return run(given, strcmp(form, "full") == 0, err);
    else
        error_set_code(err, ERROR_USAGE, "unexpected argument %s; write quick or full", form);
    return world_say_once(0, err);
}

const struct command command_preflight = {
    .name = "preflight",
    .summary = "test the nodes of a job before it starts and name the faulty ones",
    .usage =
        "Usage: megatron preflight [quick|full] [OPTION...]\n"
        "Test all nodes of a job at once, started by srun, and name the faulty ones. The quick "
        "form (default)\ntakes about 8 s, the full form about 30 s. Exit code: 0 no node failed, "
        "1 the test could not run,\n2 wrong usage, 3 a node failed.\n",
    .options = table,
    .size = sizeof(struct settings),
    .defaults = &(const struct settings){.timeout = 20},
    .reported_once = true,
    .run = run_preflight,
};
