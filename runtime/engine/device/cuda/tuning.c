/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tuning.h"
#include "base/core/list.h"
#include "base/core/memory_stream.h"
#include "base/core/storage.h"
#include "lib/clock.h"
#include "lib/file.h"

#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct choice {
    char *key, *value;
    char *early;  /* contents when the file was opened, or NULL */
    char *there;  /* contents when it was last read, or NULL */
    bool used;    /* used by this process */
    bool own;     /* put by this process */
    bool fresh;   /* put, or taken to keep, by this process and not in the file yet */
    bool agreed;  /* taken to keep: no other value is acceptable in the file */
    bool shipped; /* of the file that was installed with the program: not written */
};

/* How long to wait for the lock, and how often to check whether other processes have already
 * written the new entries. */
static const double LOCK_SECONDS = 3, LOCK_LOOK_SECONDS = 0.05;

/* Replaces a value while an algorithm is tried, and is still there if the process crashes; and after
 * a trial in which nothing was chosen. */
static const char TRYING[] = "trying", TRIED[] = "tried";

struct tuning {
    char directory[PATH_MAX / 2], path[PATH_MAX], name[256];
    LIST(struct choice *) entries;
    void *by_key;  /* the same entries, for tfind */
    bool lockless; /* locks do not work there */
};

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const struct choice *)a)->key, ((const struct choice *)b)->key);
}

static struct choice *find(const struct tuning *tuning, const char *key)
{
    const struct choice wanted = {.key = (char *)(uintptr_t)key};
    struct choice **found = tfind(&wanted, &tuning->by_key, compare_keys);

    return found ? *found : NULL;
}

/* Set the value of a key, which may be new. */
static struct choice *put(struct tuning *tuning, const char *key, const char *value)
{
    struct choice *entry = find(tuning, key);

    if (!entry) {
        entry = xcalloc(1, sizeof(*entry));
        entry->key = xstrdup(key);
        if (!tsearch(entry, &tuning->by_key, compare_keys))
            last_resort("out of memory");
        *list_add(&tuning->entries) = entry;
    }
    free(entry->value);
    entry->value = xstrdup(value);
    return entry;
}

static bool is_record(const char *value)
{
    return strcmp(value, TRYING) == 0 || strcmp(value, TRIED) == 0;
}

bool tuning_is_provisional(const char *value)
{
    size_t length = strlen(value);

    return length > 0 && value[length - 1] == TUNING_PROVISIONAL;
}

/* Has another process written a value for the entry? Many ranks of a job find the same, and the
 * first one's value is good enough, except one that this process found there and could not use. */
static bool is_done(const struct choice *entry, const char *value)
{
    if (entry->agreed)
        return strcmp(value, entry->value) == 0;
    if (is_record(value))
        return strcmp(entry->value, value) == 0;
    if (tuning_is_provisional(value) && !tuning_is_provisional(entry->value) &&
        !is_record(entry->value))
        return 0;
    return !entry->early || strcmp(value, entry->early) != 0;
}

/* Read the complete lines of the file whose key is not known yet or, with 'replace', not used by
 * this process: another process may have tried it meanwhile. */
static void read_file(struct tuning *tuning, int replace)
{
    char line[1024], key[512], value[512];
    FILE *file = fopen(tuning->path, "re");

    for (size_t i = 0; i < tuning->entries.count; i++) {
        free(tuning->entries.items[i]->there);
        tuning->entries.items[i]->there = NULL;
    }
    if (!file)
        return;
    while (fgets(line, sizeof(line), file)) {
        struct choice *known;

        if (!strchr(line, '\n') || sscanf(line, "%511s %511s", key, value) != 2)
            continue;
        known = find(tuning, key);
        if (known && known->there) /* the first one counts */
            continue;
        if (known && (known->own || known->agreed))
            known->fresh = !is_done(known, value);
        if (!known || (replace && !known->used))
            known = put(tuning, key, value);
        known->there = xstrdup(value);
    }
    fclose(file);
}

static bool anything_fresh(const struct tuning *tuning)
{
    for (size_t i = 0; i < tuning->entries.count; i++)
        if (tuning->entries.items[i]->fresh)
            return true;
    return false;
}

/* The complete lines of an installed file, for keys that are not known yet. */
static void read_shipped(struct tuning *tuning, const char *directory, const char *name)
{
    char path[PATH_MAX], line[1024], key[512], value[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "re");
    if (!file)
        return;
    while (fgets(line, sizeof(line), file))
        if (strchr(line, '\n') && sscanf(line, "%511s %511s", key, value) == 2 && key[0] != '#' &&
            !is_record(value) && !find(tuning, key))
            put(tuning, key, value)->shipped = 1;
    fclose(file);
}

struct tuning *tuning_open(const char *directory, const char *shipped, const char *name)
{
    struct tuning *tuning = xcalloc(1, sizeof(*tuning));

    snprintf(tuning->name, sizeof(tuning->name), "%s", name);
    if (directory && strlen(directory) + strlen(name) + 2 < sizeof(tuning->directory)) {
        snprintf(tuning->directory, sizeof(tuning->directory), "%s", directory);
        snprintf(tuning->path, sizeof(tuning->path), "%s/%s", directory, name);
        read_file(tuning, 0);
        for (size_t i = 0; i < tuning->entries.count; i++)
            tuning->entries.items[i]->early = xstrdup(tuning->entries.items[i]->value);
    }
    if (shipped)
        read_shipped(tuning, shipped, name);
    return tuning;
}

const char *tuning_get(struct tuning *tuning, const char *key)
{
    struct choice *entry = find(tuning, key);

    if (!entry || is_record(entry->value))
        return NULL;
    entry->used = 1;
    return entry->value;
}

void tuning_put(struct tuning *tuning, const char *key, const char *value)
{
    struct choice *entry = put(tuning, key, value);

    entry->used = entry->own = entry->fresh = 1;
    entry->agreed = entry->shipped = 0;
}

int tuning_try(struct tuning *tuning, const char *key)
{
    const struct choice *known = find(tuning, key);

    if (!tuning->path[0])
        return -1;
    if (known && known->early && !known->used && strcmp(known->value, TRYING) == 0)
        return -1;
    tuning_put(tuning, key, TRYING);
    return tuning_save(tuning, NULL);
}

void tuning_untry(struct tuning *tuning, const char *key)
{
    const struct choice *known = find(tuning, key);

    if (known && known->own && strcmp(known->value, TRYING) == 0)
        tuning_put(tuning, key, TRIED);
}

char *tuning_text(const struct tuning *tuning)
{
    char *text;
    size_t size;
    FILE *stream = memory_stream(&text, &size);

    fprintf(stream, "for %s\n", tuning->name);
    for (size_t i = 0; i < tuning->entries.count; i++) {
        const struct choice *entry = tuning->entries.items[i];

        if (entry->used && !is_record(entry->value))
            fprintf(stream, "%s %s\n", entry->key, entry->value);
    }
    memory_stream_close(stream);
    return text;
}

int tuning_take(struct tuning *tuning, const char *text, int keep, struct error *err)
{
    char key[512], value[512];
    int length;

    if (sscanf(text, "%511s %511s%n", key, value, &length) != 2 || strcmp(key, "for") != 0)
        return error_set(err, "the saved choices of algorithms are damaged");
    if (strcmp(value, tuning->name) != 0)
        return error_set(err, "the saved choices of algorithms are for %s, and this is %s", value,
                         tuning->name);
    while (sscanf(text += length, "%511s %511s%n", key, value, &length) == 2) {
        struct choice *entry;

        if (is_record(value))
            continue;
        entry = put(tuning, key, value);
        entry->used = 1;
        entry->own = entry->shipped = 0;
        entry->fresh = entry->agreed = keep;
    }
    return 0;
}

/* Keep other processes from writing until the descriptor is closed; what they write meanwhile may
 * include everything that is new here. Returns -1 if that is not possible or another process does
 * not release the lock: then lines may get lost, which costs the time to find them again. */
static int take_lock(struct tuning *tuning)
{
    double until = clock_now() + LOCK_SECONDS;
    char path[PATH_MAX];
    int fd = -1, rc;

    snprintf(path, sizeof(path), "%s/.tuning.lock", tuning->directory);
    if (!tuning->lockless)
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    while (fd >= 0 && (rc = file_lock(fd, LOCK_LOOK_SECONDS)) != 0) {
        if (rc < 0 || clock_now() > until) {
            tuning->lockless = true;
            close(fd);
            return -1;
        }
        read_file(tuning, 1);
        if (!anything_fresh(tuning))
            break;
    }
    return fd;
}

static int write_file(struct tuning *tuning, struct error *err)
{
    size_t size;
    char *text;
    FILE *stream = memory_stream(&text, &size);
    int rc;

    for (size_t i = 0; i < tuning->entries.count; i++) {
        const struct choice *entry = tuning->entries.items[i];

        if (!entry->shipped || entry->there)
            fprintf(stream, "%s %s\n", entry->key,
                    entry->there && !entry->fresh ? entry->there : entry->value);
    }
    memory_stream_close(stream);
    rc = file_write_whole(tuning->path, text, size, 0, err);
    free(text);
    for (size_t i = 0; i < tuning->entries.count && rc == 0; i++)
        tuning->entries.items[i]->fresh = 0;
    return rc;
}

void tuning_read_only(struct tuning *tuning)
{
    tuning->path[0] = '\0';
}

int tuning_save(struct tuning *tuning, struct error *err)
{
    int lock, rc;

    if (!tuning->path[0] || !anything_fresh(tuning))
        return 0;
    read_file(tuning, 1); /* many ranks find the same: those that need not write do not wait */
    if (!anything_fresh(tuning))
        return 0;
    file_make_directories(tuning->directory,
                          0777); /* errors are reported when the file is written */
    lock = take_lock(tuning);
    read_file(tuning, 1);
    rc = anything_fresh(tuning) ? write_file(tuning, err) : 0;
    if (lock >= 0)
        close(lock);
    return rc;
}

static void keep_entry(void *entry)
{
    (void)entry;
}

void tuning_destroy(struct tuning *tuning)
{
    if (!tuning)
        return;
    tdestroy(tuning->by_key, keep_entry);
    for (size_t i = 0; i < tuning->entries.count; i++) {
        struct choice *entry = tuning->entries.items[i];

        free(entry->key);
        free(entry->value);
        free(entry->early);
        free(entry->there);
        free(entry);
    }
    list_free(&tuning->entries);
    free(tuning);
}
