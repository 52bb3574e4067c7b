/* SPDX-License-Identifier: Apache-2.0 */
#include "importer.h"
#include "process.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MEGATRON_PROGRAM is the installed `megatron`, which `./configure --program-prefix` may rename. */

/* `megatron image get` enforces the timeout itself but may exceed it by this much: each phase
 * (import, copy, extraction) gets a minimum time even if the earlier ones used it all up. */
enum { MARGIN_SECONDS = 240, STOP_GRACE_SECONDS = 3 };

enum { WORDS = 40, NUMBERS = 6 };

/* A command line under construction. */
struct line {
    const char *words[WORDS];
    size_t count;
    char numbers[NUMBERS][32];
    size_t number_count;
};

static void add(struct line *line, const char *word)
{
    line->words[line->count++] = word;
}

static void add_text(struct line *line, const char *option, const char *value)
{
    if (!value)
        return;
    add(line, option);
    add(line, value);
}

static void add_number(struct line *line, const char *option, int64_t value)
{
    char *number = line->numbers[line->number_count];

    if (value == 0)
        return;
    line->number_count++;
    snprintf(number, sizeof(line->numbers[0]), "%" PRId64, value);
    add_text(line, option, number);
}

/* The options of `megatron image get`. */
static void add_options(const struct importer *importer, struct line *line)
{
    add_text(line, "--shared-cache", importer->shared_cache);
    if (importer->shared_cache)
        add_number(line, "--publisher", importer->publisher);
    add_text(line, "--stage", importer->stage);
    add_number(line, "--stage-max", importer->stage_max);
    add_number(line, "--min-free", importer->min_free);
    add_text(line, "--job", importer->job);
    add_text(line, "--step", importer->step);
    add_number(line, "--nodes", importer->nodes);
    if (importer->job && !importer->imports)
        add(line, "--wait");
    add_number(line, "--processors", importer->processors);
    add_text(line, "--container", importer->container);
    add_number(line, "--timeout", importer->timeout);
}

/* `megatron` creates the container no matter which program gets the image. */
static bool is_own(const struct importer *importer)
{
    return !importer->program || importer->container;
}

/* The importer as a user would type it. */
static const char *command_name(const struct importer *importer)
{
    return is_own(importer) ? "megatron image" : importer->program;
}

static void compose_get(const struct importer *importer, struct line *line)
{
    add(line, is_own(importer) ? MEGATRON_PROGRAM : importer->program);
    if (is_own(importer))
        add(line, "image");
    add(line, "get");
    add(line, importer->uri);
    if (is_own(importer)) {
        add_options(importer, line);
        add_text(line, "--importer", importer->program);
    }
}

/* Receives the output lines of a running importer. */
struct relay {
    const struct importer *importer;
    char reason[1024]; /* the last line that explains a failure */
};

/* Prefixes of lines on standard error, and whether such a line is the reason for a failure.
 * `megatron` marks its notes; any program may mark its errors. */
static const struct {
    const char *mark;
    int is_reason;
} marks[] = {
    {"megatron: note: ", 0}, {"megatron: ", 0}, {"megatron image: ", 1},
    {"error: ", 1},          {"[ERROR] ", 1},
};

static void on_line(void *argument, const char *line)
{
    struct relay *relay = argument;

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        size_t length = strlen(marks[i].mark);

        if (strncmp(line, marks[i].mark, length) != 0)
            continue;
        line += length;
        if (marks[i].is_reason) {
            snprintf(relay->reason, sizeof(relay->reason), "%s", line);
            return;
        }
        break;
    }
    if (relay->importer->say)
        relay->importer->say(relay->importer->argument, line);
}

static int explain(const struct importer *importer, const struct process_request *request,
                   const struct process_result *result, const struct relay *relay,
                   struct error *err)
{
    char what[1024];

    if (is_stopped(importer->stop))
        return error_set(err, STOPPED);
    snprintf(what, sizeof(what), "`%.600s get %.300s`", command_name(importer), importer->uri);
    if (result->timed_out)
        return error_set(err, "%s took longer than %.0f seconds%s%s", what, request->timeout,
                         importer->timeout_remedy ? "; " : "",
                         importer->timeout_remedy ? importer->timeout_remedy : "");
    if (relay->reason[0] && is_own(importer))
        return error_set(err, "%s", relay->reason);
    if (!relay->reason[0] && process_check_signal(what, result->status, err) < 0)
        return -1;
    return error_set(err, "%s failed (exit code %d)%s%s", what, result->status,
                     relay->reason[0] ? ": " : "; run it by hand to see why", relay->reason);
}

/* The one line that was printed, an absolute path. */
static int read_path(const struct importer *importer, const char *output, char *path, size_t size,
                     struct error *err)
{
    size_t length = strcspn(output, "\n");

    if (output[0] != '/' || length >= size || (output[length] && output[length + 1]))
        return error_set(err,
                         "`%s get` printed \"%.*s%s\" instead of the path of a squashfs file; see "
                         "megatron-importer(7)",
                         command_name(importer), (int)(length < 200 ? length : 200), output,
                         output[length] && output[length + 1] ? "..." : "");
    memcpy(path, output, length);
    path[length] = '\0';
    return 0;
}

static int run_get(const struct importer *importer, const struct process_request *request,
                   const struct relay *relay, struct process_result *result, char *path,
                   size_t size, struct error *err)
{
    char found[4096];

    if (process_find(request->argv[0], NULL, found, sizeof(found)) < 0)
        return error_set(err,
                         "cannot run the image importer %s; install megatron on this host, "
                         "or set importer= in plugstack.conf",
                         request->argv[0]);
    if (process_run(request, result, err) < 0)
        return -1;
    if (result->status != 0 || result->timed_out || is_stopped(importer->stop))
        return explain(importer, request, result, relay, err);
    return importer->container ? 0 : read_path(importer, result->output, path, size, err);
}

int importer_get(const struct importer *importer, char *path, size_t size, struct error *err)
{
    struct line line = {.count = 0};
    struct relay relay = {.importer = importer};
    const struct process_request request = {
        .argv = line.words,
        .environment = importer->environment,
        .timeout = (double)importer->timeout + (is_own(importer) ? MARGIN_SECONDS : 0),
        .line = on_line,
        .argument = &relay,
        .stop = importer->stop,
        .stop_grace = STOP_GRACE_SECONDS,
    };
    struct process_result *result = calloc(1, sizeof(*result));
    int rc;

    if (!result)
        return error_set(err, "out of memory");
    compose_get(importer, &line);
    rc = run_get(importer, &request, &relay, result, path, size, err);
    free(result);
    return rc;
}
