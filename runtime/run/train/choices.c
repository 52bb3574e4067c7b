/* SPDX-License-Identifier: Apache-2.0 */
#include "choices.h"
#include "run/checkpoint/directory.h"
#include "lib/file.h"
#include "base/core/log.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHOICES_NAME   "algorithms.txt"
#define CHOICES_OTHERS "algorithms-%s.txt" /* file with choices for another GPU model */

enum { MOST_BYTES = 64 << 20 }; /* limit, because the file may be damaged */

static const double DEADLINE = 600; /* seconds; comm has its own, shorter timeouts */

/* --- Texts ----------------------------------------------------------------------------------- */

/* Length of the key of the line at 'line'; 'next' is the beginning of the following line. */
static size_t split_line(const char *line, const char **next)
{
    const char *end = strchr(line, '\n');
    size_t length = end ? (size_t)(end - line) : strlen(line);
    const char *space = memchr(line, ' ', length);

    *next = line + length + (end != NULL);
    return space ? (size_t)(space - line) : length;
}

/* The line with this key, or NULL. */
static const char *find_line(const char *text, const char *key, size_t length)
{
    const char *next;

    for (const char *line = text; *line; line = next)
        if (split_line(line, &next) == length && strncmp(line, key, length) == 0)
            return line;
    return NULL;
}

char *choices_merge(const char *const *texts, size_t count)
{
    size_t size = 1, used = 0;
    char *all;

    for (size_t i = 0; i < count; i++)
        size += strlen(texts[i]) + 1;
    all = xcalloc(1, size);
    for (size_t i = 0; i < count; i++) {
        const char *next;

        for (const char *line = texts[i]; *line; line = next) {
            size_t key = split_line(line, &next), length = (size_t)(next - line);

            if (key == 0 || find_line(all, line, key))
                continue;
            memcpy(all + used, line, length);
            used += length;
            if (all[used - 1] != '\n')
                all[used++] = '\n';
        }
    }
    return all;
}

/* The first line of 'text' that is not in 'other', or NULL. */
static const char *find_difference(const char *text, const char *other)
{
    const char *next, *next_other;

    for (const char *line = text; *line; line = next) {
        size_t key = split_line(line, &next);
        const char *same;

        if (key == 0)
            continue;
        same = find_line(other, line, key);
        if (!same)
            return line;
        split_line(same, &next_other);
        if (next - line != next_other - same || strncmp(line, same, (size_t)(next - line)) != 0)
            return line;
    }
    return NULL;
}

bool choices_differ(const char *text, const char *other)
{
    return find_difference(text, other) != NULL;
}

enum { NAME_SIZE = 200 };

/* The GPU model that choices are for, from their first line. */
static void read_name(const char *text, char name[NAME_SIZE])
{
    if (sscanf(text, "for %199s", name) != 1 || strchr(name, '/'))
        snprintf(name, NAME_SIZE, "unknown");
}

/* --- Ranks ----------------------------------------------------------------------------------- */

/* Buffers for moving texts between ranks, on host and device. */
struct mover {
    const struct parallel *parallel;
    struct device *device;
    struct device_stream *stream;
    char *host, *memory;
    size_t bytes;
};

static void mover_close(struct mover *m)
{
    device_release(m->device, m->memory);
    device_host_release(m->device, m->host);
    device_stream_destroy(m->stream);
}

static int mover_room(struct mover *m, size_t bytes, struct error *err)
{
    device_release(m->device, m->memory);
    device_host_release(m->device, m->host);
    m->bytes = bytes;
    m->memory = device_allocate(m->device, bytes, err);
    m->host = m->memory ? device_host_allocate(m->device, bytes, err) : NULL;
    return m->host ? 0 : -1;
}

static int mover_open(struct mover *m, const struct parallel *parallel, struct device *device,
                      struct error *err)
{
    *m = (struct mover){.parallel = parallel, .device = device};
    m->stream = device_stream_create(device, 0);
    return mover_room(m, DEVICE_ALIGNMENT, err);
}

static int mover_wait(struct mover *m, struct error *err)
{
    if (device_stream_wait(m->stream, DEADLINE, err) < 0)
        return -1;
    return comm_check(m->parallel->comm, err);
}

/* Replace '*text' by rank 0's; the others' may be NULL. */
static int spread(struct comm *comm, char **text, struct error *err)
{
    int64_t size = comm->rank == 0 && *text ? (int64_t)strlen(*text) + 1 : 0;

    if (comm_host_broadcast(comm, &size, sizeof(size), 0, err) < 0)
        return -1;
    if (size < 0 || size > MOST_BYTES)
        return error_bug(err, "rank 0 announced a text of %lld bytes", (long long)size);
    if (comm->rank != 0 || size == 0) {
        free(*text);
        *text = NULL;
    }
    if (size == 0)
        return 0;
    if (!*text)
        *text = xcalloc((size_t)size, 1);
    if (comm_host_broadcast(comm, *text, (size_t)size, 0, err) < 0)
        return -1;
    (*text)[size - 1] = '\0';
    return 0;
}

/* Merge the texts of the ranks of a group. */
static char *merge_group(struct mover *m, struct comm_group *group, const char *own,
                         struct error *err)
{
    size_t stages = (size_t)group->size, room;
    int64_t size = (int64_t)strlen(own) + 1;
    const char **texts = xcalloc(stages, sizeof(*texts));
    char *merged = NULL, *mine;

    if (comm_host_max(m->parallel->comm, &size, 1, err) < 0)
        goto out;
    room = (size_t)(size + 3) / 4 * 4;
    if (mover_room(m, stages * room, err) < 0)
        goto out;
    memset(m->host, 0, m->bytes);
    mine = m->memory + (size_t)group->rank * room;
    memcpy(m->host, own, strlen(own));
    device_copy(m->stream, mine, m->host, room, COPY_TO_DEVICE);
    comm_all_gather(group, m->stream, mine, m->memory, room / 4, TYPE_INT32);
    device_copy(m->stream, m->host, m->memory, m->bytes, COPY_TO_HOST);
    if (mover_wait(m, err) < 0)
        goto out;
    for (size_t i = 0; i < stages; i++) {
        m->host[(i + 1) * room - 1] = '\0';
        texts[i] = m->host + i * room;
    }
    merged = choices_merge(texts, stages);
out:
    free(texts);
    return merged;
}

/* A file's text, which the caller frees. NULL if it does not exist, or, with an error, if it cannot
 * be read. */
static char *read_text(const char *path, struct error *err)
{
    struct file_bytes file = {0};

    err->text[0] = '\0';
    if (access(path, F_OK) < 0 && errno == ENOENT)
        return NULL;
    if (file_read(path, MOST_BYTES, &file, err) < 0)
        file_bytes_clear(&file);
    return file.data;
}

/* The choices saved in 'directory' for this device, or else for another one. */
static char *find_kept(struct device *device, const char *directory, struct error *err)
{
    char path[PATH_MAX], name[NAME_SIZE], own[NAME_SIZE], *text, *other;
    struct error ignored;

    text = device->choices(device, err);
    if (!text)
        return NULL;
    read_name(text, own);
    free(text);
    if (directory_path(path, err, "%s/" CHOICES_NAME, directory) < 0)
        return NULL;
    text = read_text(path, err);
    read_name(text ? text : "", name);
    if (strcmp(name, own) == 0 ||
        directory_path(path, &ignored, "%s/" CHOICES_OTHERS, directory, own) < 0)
        return text;
    other = read_text(path, &ignored);
    if (!other)
        return text;
    free(text);
    return other;
}

int choices_restore(const struct parallel *parallel, struct device *device, const char *directory,
                    char **restored, struct error *err)
{
    struct error why = {.text = ""};
    char *text = NULL;

    *restored = NULL;
    if (!device->choose)
        return 0;
    if (parallel->comm->rank == 0)
        text = find_kept(device, directory, &why);
    if (spread(parallel->comm, &text, err) < 0) {
        free(text);
        return -1;
    }
    if (text && device->choose(device, text, 0, &why) == 0) {
        *restored = text;
        return 0;
    }
    if (why.text[0] && parallel->comm->rank == 0) {
        if (text)
            error_prefix(&why, "%s/" CHOICES_NAME, directory);
        log_warning("%s; the run continues, but results may not be bit-identical", why.text);
    }
    free(text);
    return 0;
}

/* The names of choices contain library and kernel versions, which the device name does not. */
static void warn_of_new(const char *agreed, const char *restored)
{
    const char *line = find_difference(agreed, restored), *next;

    if (line)
        log_warning(CHOICES_NAME
                    " contains no usable algorithm for %.*s: the shapes, cuDNN or this "
                    "program have changed; the run continues, but results may not be bit-identical",
                    (int)split_line(line, &next), line);
}

int choices_agree(const struct parallel *parallel, struct device *device, const char *restored,
                  int remember, int *again, struct error *err)
{
    struct mover mover;
    char *own = NULL, *stages = NULL, *agreed = NULL;
    int64_t differ;
    int rc = -1;

    *again = 0;
    if (!device->choose)
        return 0;
    own = device->choices(device, err);
    if (!own || mover_open(&mover, parallel, device, err) < 0)
        goto out;
    /* Layers differ between pipeline stages, attention between context-parallel ranks. */
    stages = merge_group(&mover, parallel->pipeline, own, err);
    agreed = stages ? merge_group(&mover, parallel->context, stages, err) : NULL;
    if (!agreed || spread(parallel->comm, &agreed, err) < 0)
        goto out;
    differ = choices_differ(own, agreed);
    if (comm_host_max(parallel->comm, &differ, 1, err) < 0 ||
        device->choose(device, agreed, remember, err) < 0)
        goto out;
    if (restored && parallel->comm->rank == 0)
        warn_of_new(agreed, restored);
    *again = differ > 0;
    rc = 0;
out:
    if (own)
        mover_close(&mover);
    free(own);
    free(stages);
    free(agreed);
    return rc;
}

/* Rename the saved choices if they are for a different device than 'text'. */
static int set_aside(const char *directory, const char *text, struct error *err)
{
    char path[PATH_MAX], aside[PATH_MAX], name[NAME_SIZE], own[NAME_SIZE], *kept;
    struct error why;

    if (directory_path(path, err, "%s/" CHOICES_NAME, directory) < 0)
        return -1;
    kept = read_text(path, &why);
    if (!kept && !why.text[0])
        return 0;
    read_name(kept ? kept : "", name);
    read_name(text, own);
    free(kept);
    if (strcmp(name, own) == 0)
        return 0;
    if (directory_path(aside, err, "%s/" CHOICES_OTHERS, directory, name) < 0)
        return -1;
    return rename(path, aside) < 0 ? error_set_errno(err, errno, "cannot rename %s", path) : 0;
}

int choices_keep(const struct parallel *parallel, struct device *device, const char *directory,
                 struct error *err)
{
    char *text;
    int rc;

    if (!device->choose || parallel->comm->rank != 0)
        return 0;
    text = device->choices(device, err);
    if (!text)
        return -1;
    rc = set_aside(directory, text, err);
    if (rc == 0)
        rc = directory_write(directory, CHOICES_NAME, text, strlen(text), err);
    free(text);
    return rc;
}
