/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tuning.h"
#include "lib/checksum.h"
#include "lib/clock.h"
#include "lib/file.h"
#include "base/core/storage.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct entry {
    char *key, *value;
    char *early; /* contents when the file was opened, or NULL */
    char *there; /* contents when it was last read, or NULL */
    int used;    /* used by this process */
    int own;     /* put by this process */
    int fresh;   /* put, or taken to keep, by this process and not in the file yet */
    int agreed;  /* taken to keep: no other value is acceptable in the file */
    int shipped; /* of the file that was installed with the program: not written */
};

/* How long to wait for the lock, and how often to check whether other processes have already
 * written the new entries. */
static const double LOCK_SECONDS = 3, LOCK_LOOK_SECONDS = 0.05;

/* Instead of a value while an algorithm is tried; it is still there if the process crashes. And
 * after that, if nothing was chosen. */
static const char TRYING[] = "trying", TRIED[] = "tried";

struct tuning {
    char directory[PATH_MAX / 2], path[PATH_MAX], name[256];
    struct entry *entries;
    size_t count, room;
    size_t *slots;     /* a hash table: numbers of entries from 1 on, 0: empty */
    size_t slot_count; /* a power of two, at least twice the entries */
    int lockless;      /* locks do not work there */
};

/* The slot of the entry with this key, or the empty one where it belongs: at least half of the
 * slots are empty. */
static size_t find_slot(const struct tuning *tuning, const char *key)
{
    size_t slot = (size_t)checksum_of(key, strlen(key)) & (tuning->slot_count - 1);

    while (tuning->slots[slot] && strcmp(tuning->entries[tuning->slots[slot] - 1].key, key) != 0)
        slot = (slot + 1) & (tuning->slot_count - 1);
    return slot;
}

static struct entry *find(const struct tuning *tuning, const char *key)
{
    size_t number = tuning->slot_count ? tuning->slots[find_slot(tuning, key)] : 0;

    return number ? &tuning->entries[number - 1] : NULL;
}

/* Make room for another entry. */
static int grow(struct tuning *tuning)
{
    size_t room = tuning->room ? 2 * tuning->room : 64;
    struct entry *entries = realloc(tuning->entries, room * sizeof(*entries));
    size_t *slots = calloc(2 * room, sizeof(*slots));

    if (entries)
        tuning->entries = entries;
    if (!entries || !slots) {
        free(slots);
        return -1;
    }
    free(tuning->slots);
    tuning->slots = slots;
    tuning->slot_count = 2 * room;
    tuning->room = room;
    for (size_t i = 0; i < tuning->count; i++)
        slots[find_slot(tuning, entries[i].key)] = i + 1;
    return 0;
}

/* With 'replace' 0 an existing value is kept. */
static int put(struct tuning *tuning, const char *key, const char *value, int replace)
{
    struct entry *entry = find(tuning, key);
    char *copy;

    if (entry && !replace)
        return 0;
    copy = strdup(value);
    if (!copy)
        return -1;
    if (entry) {
        free(entry->value);
        entry->value = copy;
        return 0;
    }
    if (tuning->count == tuning->room && grow(tuning) < 0) {
        free(copy);
        return -1;
    }
    entry = &tuning->entries[tuning->count];
    entry->key = strdup(key);
    entry->value = copy;
    entry->early = entry->there = NULL;
    entry->used = entry->own = entry->fresh = entry->agreed = entry->shipped = 0;
    if (!entry->key) {
        free(copy);
        return -1;
    }
    tuning->count++;
    tuning->slots[find_slot(tuning, key)] = tuning->count;
    return 0;
}

static int is_record(const char *value)
{
    return strcmp(value, TRYING) == 0 || strcmp(value, TRIED) == 0;
}

int tuning_is_provisional(const char *value)
{
    size_t length = strlen(value);

    return length > 0 && value[length - 1] == TUNING_PROVISIONAL;
}

/* Has another process written a value for the entry? Many ranks of a job find the same, and the
 * first one's value is good enough, except one that this process found there and could not use. */
static int is_done(const struct entry *entry, const char *value)
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

static void forget_file(struct tuning *tuning)
{
    for (size_t i = 0; i < tuning->count; i++) {
        free(tuning->entries[i].there);
        tuning->entries[i].there = NULL;
    }
}

/* Read the complete lines of the file whose key is not known yet or, with 'replace', not used by
 * this process: another process may have tried it meanwhile. */
static void read_file(struct tuning *tuning, int replace)
{
    char line[1024], key[512], value[512];
    FILE *file = fopen(tuning->path, "re");

    forget_file(tuning);
    if (!file)
        return;
    while (fgets(line, sizeof(line), file)) {
        struct entry *known;

        if (!strchr(line, '\n') || sscanf(line, "%511s %511s", key, value) != 2)
            continue;
        known = find(tuning, key);
        if (known && known->there) /* the first one counts */
            continue;
        if (known && (known->own || known->agreed))
            known->fresh = !is_done(known, value);
        put(tuning, key, value, replace && known && !known->used);
        known = find(tuning, key);
        if (known)
            known->there = strdup(value);
    }
    fclose(file);
}

static int anything_fresh(const struct tuning *tuning)
{
    for (size_t i = 0; i < tuning->count; i++)
        if (tuning->entries[i].fresh)
            return 1;
    return 0;
}

/* The complete lines of an installed file, for keys that are not known yet. */
static void read_shipped(struct tuning *tuning, const char *directory, const char *name)
{
    char path[PATH_MAX], line[1024], key[512], value[512];
    size_t before = tuning->count;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "re");
    if (!file)
        return;
    while (fgets(line, sizeof(line), file))
        if (strchr(line, '\n') && sscanf(line, "%511s %511s", key, value) == 2 && key[0] != '#' &&
            !is_record(value))
            put(tuning, key, value, 0);
    for (size_t i = before; i < tuning->count; i++)
        tuning->entries[i].shipped = 1;
    fclose(file);
}

struct tuning *tuning_open(const char *directory, const char *shipped, const char *name)
{
    struct tuning *tuning = calloc(1, sizeof(*tuning));

    if (!tuning)
        return NULL;
    snprintf(tuning->name, sizeof(tuning->name), "%s", name);
    if (directory && strlen(directory) + strlen(name) + 2 < sizeof(tuning->directory)) {
        snprintf(tuning->directory, sizeof(tuning->directory), "%s", directory);
        snprintf(tuning->path, sizeof(tuning->path), "%s/%s", directory, name);
        read_file(tuning, 0);
        /* Without a copy the entry counts as new, and is tried or put once more. */
        for (size_t i = 0; i < tuning->count; i++)
            tuning->entries[i].early = strdup(tuning->entries[i].value);
    }
    if (shipped)
        read_shipped(tuning, shipped, name);
    return tuning;
}

const char *tuning_get(struct tuning *tuning, const char *key)
{
    struct entry *entry = find(tuning, key);

    if (!entry || is_record(entry->value))
        return NULL;
    entry->used = 1;
    return entry->value;
}

int tuning_put(struct tuning *tuning, const char *key, const char *value, struct error *err)
{
    struct entry *entry;

    if (put(tuning, key, value, 1))
        return error_set(err, "out of memory");
    entry = find(tuning, key);
    entry->used = entry->own = entry->fresh = 1;
    entry->agreed = entry->shipped = 0;
    return 0;
}

int tuning_try(struct tuning *tuning, const char *key)
{
    const struct entry *known = find(tuning, key);

    if (!tuning->path[0])
        return -1;
    if (known && known->early && !known->used && strcmp(known->value, TRYING) == 0)
        return -1;
    return tuning_put(tuning, key, TRYING, NULL) < 0 ? -1 : tuning_save(tuning, NULL);
}

int tuning_untry(struct tuning *tuning, const char *key, struct error *err)
{
    const struct entry *known = find(tuning, key);

    return known && known->own && strcmp(known->value, TRYING) == 0
               ? tuning_put(tuning, key, TRIED, err)
               : 0;
}

char *tuning_text(const struct tuning *tuning)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    if (!stream)
        return NULL;
    fprintf(stream, "for %s\n", tuning->name);
    for (size_t i = 0; i < tuning->count; i++)
        if (tuning->entries[i].used && !is_record(tuning->entries[i].value))
            fprintf(stream, "%s %s\n", tuning->entries[i].key, tuning->entries[i].value);
    if (fclose(stream) == 0)
        return text;
    free(text);
    return NULL;
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
        struct entry *entry;

        if (is_record(value))
            continue;
        if (put(tuning, key, value, 1))
            return error_set(err, "out of memory");
        entry = find(tuning, key);
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
            tuning->lockless = 1;
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
    size_t size = 0;
    char *text = NULL;
    FILE *file = open_memstream(&text, &size);
    int rc;

    for (size_t i = 0; file && i < tuning->count; i++) {
        const struct entry *entry = &tuning->entries[i];

        if (entry->shipped && !entry->there)
            continue;
        fprintf(file, "%s %s\n", entry->key,
                entry->there && !entry->fresh ? entry->there : entry->value);
    }
    if (!file || fclose(file) != 0)
        rc = error_set(err, "out of memory");
    else
        rc = file_write_whole(tuning->path, text, size, 0, err);
    free(text);
    if (rc < 0)
        return -1;
    for (size_t i = 0; i < tuning->count; i++)
        tuning->entries[i].fresh = 0;
    return 0;
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

void tuning_destroy(struct tuning *tuning)
{
    if (!tuning)
        return;
    for (size_t i = 0; i < tuning->count; i++) {
        free(tuning->entries[i].key);
        free(tuning->entries[i].value);
        free(tuning->entries[i].early);
        free(tuning->entries[i].there);
    }
    free(tuning->entries);
    free(tuning->slots);
    free(tuning);
}
