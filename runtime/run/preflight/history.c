/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "findings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/file.h"
#include "base/core/storage.h"
#include "base/core/json.h"
#include "base/core/list.h"
#include "base/core/memory_stream.h"

enum { FILE_LIMIT = 64 << 20, LOCK_SECONDS = 5 };

#define DAY 86400.0

/* A line of the file; a line that is not understood has no host. */
struct entry {
    const char *line;
    size_t length;
    double time;
    char host[64];
};

struct entries {
    struct entry *items;
    size_t count, room;
};

static void read_entry(struct entry *entry)
{
    struct json *json = json_read(entry->line, entry->length, NULL);
    struct json_value value;
    const char *text;
    size_t bytes;

    if (json && json_member(json_root(json), "time", &value) == 0 &&
        json_real(value, &entry->time) == 0 && json_member(json_root(json), "host", &value) == 0 &&
        json_string(value, &text, &bytes) == 0)
        snprintf(entry->host, sizeof(entry->host), "%s", text);
    json_destroy(json);
}

static void read_entries(const char *text, struct entries *entries)
{
    while (*text) {
        struct entry *entry = list_add(entries);

        *entry = (struct entry){.line = text, .length = strcspn(text, "\n")};
        read_entry(entry);
        text += entry->length + (text[entry->length] == '\n');
    }
}

/* How often 'host' failed in the week before 'now'. */
static int count_failures(const struct entries *entries, const char *host, double now)
{
    int count = 0;

    for (size_t i = 0; i < entries->count; i++) {
        const struct entry *e = &entries->items[i];

        count +=
            strcmp(e->host, host) == 0 && e->time >= now - HISTORY_WEEK * DAY && e->time <= now;
    }
    return count;
}

static void keep_recent(const struct entries *entries, double now, FILE *out)
{
    for (size_t i = 0; i < entries->count; i++) {
        const struct entry *e = &entries->items[i];

        if (e->length > 0 && (!e->host[0] || e->time >= now - HISTORY_DAYS * DAY))
            fprintf(out, "%.*s\n", (int)e->length, e->line);
    }
}

static bool counts(const struct finding *finding)
{
    return finding->verdict == VERDICT_FAIL && !finding->in_doubt;
}

/* One line for a host with all its failed checks. */
static void write_failure(const struct findings *findings, const char *host, double now,
                          const char *job, FILE *out)
{
    struct json_writer json = {.stream = out};

    json_open(&json, NULL, '{');
    json_put_fixed(&json, "time", now, 0);
    json_put_string(&json, "host", host);
    json_put_string(&json, "job", job);
    json_open(&json, "checks", '[');
    for (size_t i = 0; i < findings->count; i++)
        if (counts(&findings->items[i]) && strcmp(findings->items[i].host, host) == 0)
            json_put_string(&json, NULL, findings->items[i].check);
    json_close(&json);
    json_close(&json);
    json_end_line(&json);
}

/* Verdicts and lines for all failed hosts; findings are sorted, so equal hosts follow each other.
 */
static void add_failures(struct findings *findings, const struct entries *old, double now,
                         const char *job, FILE *out)
{
    size_t count = findings->count;
    char last[64] = "";

    for (size_t i = 0; i < count && findings->items[i].verdict == VERDICT_FAIL; i++) {
        struct finding again = {.verdict = VERDICT_FAIL, .check = "history"};
        int times;

        if (!counts(&findings->items[i]) || strcmp(findings->items[i].host, last) == 0)
            continue;
        snprintf(last, sizeof(last), "%s", findings->items[i].host);
        write_failure(findings, last, now, job, out);
        times = count_failures(old, last, now) + 1;
        if (times < 2)
            continue;
        snprintf(again.host, sizeof(again.host), "%s", last);
        snprintf(again.value, sizeof(again.value), "failed %d times within %d days", times,
                 HISTORY_WEEK);
        snprintf(again.expected, sizeof(again.expected), "at most once");
        snprintf(again.advice, sizeof(again.advice),
                 "the fault recurs: drain the node and have it repaired");
        findings_add(findings, &again);
    }
}

static int rewrite(const char *path, struct findings *findings, double now, const char *job,
                   struct error *err)
{
    struct entries entries = {0};
    struct file_bytes old = {0};
    char *text = NULL;
    size_t size = 0;
    FILE *memory;
    int rc = 0;

    if (file_read(path, FILE_LIMIT, &old, err) < 0 && errno != ENOENT)
        return -1;
    memory = memory_stream(&text, &size);
    read_entries(old.data ? old.data : "", &entries);
    keep_recent(&entries, now, memory);
    add_failures(findings, &entries, now, job, memory);
    memory_stream_close(memory);
    if (size > 0 || old.data)
        rc = file_write_whole(path, text, size, 0, err);
    free(text);
    list_free(&entries);
    file_bytes_clear(&old);
    return rc;
}

int history_update(const char *path, struct findings *findings, double now, const char *job,
                   struct error *err)
{
    char lock[PATH_MAX], *slash;
    int fd, rc;

    if (snprintf(lock, sizeof(lock), "%s.lock", path) >= (int)sizeof(lock))
        return error_set_code(err, ERROR_USAGE,
                              "the path of the history file is too long; use a shorter one");
    slash = strrchr(lock, '/');
    if (slash && slash != lock) {
        *slash = '\0';
        file_make_directories(lock, 0777);
        *slash = '/';
    }
    fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot create %s", lock);
    if (file_lock(fd, LOCK_SECONDS) > 0)
        rc =
            error_set_code(err, ERROR_BUSY, "another process has locked %s; try again later", lock);
    else
        rc = rewrite(path, findings, now, job, err);
    close(fd);
    return rc;
}
