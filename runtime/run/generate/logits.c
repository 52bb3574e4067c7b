/* SPDX-License-Identifier: Apache-2.0 */
#include "logits.h"
#include "base/core/storage.h"
#include "lib/file.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The header of one prompt at its longest, and of a file without prompts. The header has its place
 * before the lengths of the texts are known; spaces fill the rest. */
enum { HEADER_PROMPT = 320, HEADER_FILE = 64 };

struct logits {
    char *path, *temporary;
    FILE *stream;
    int64_t vocabulary, prompts, count; /* prompts so far */
    int64_t *lengths;                   /* in tokens */
};

static int64_t header_bytes(const struct logits *l)
{
    return HEADER_FILE + l->prompts * HEADER_PROMPT;
}

static int cannot_write(const struct logits *l, struct error *err)
{
    return error_set_errno(err, errno, "cannot write %s", l->path);
}

/* Open PATH.new, which gets its name at the end. What exists and is no file is not replaced. */
static int open_temporary(struct logits *l, struct error *err)
{
    struct stat status;
    int fd;

    if (stat(l->path, &status) == 0 && !S_ISREG(status.st_mode))
        return error_set_code(err, ERROR_USAGE, "%s is not a file; choose another name", l->path);
    if (unlink(l->temporary) < 0 && errno != ENOENT) {
        cannot_write(l, err);
        return file_path_error(err);
    }
    fd = open(l->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) {
        cannot_write(l, err);
        return file_path_error(err);
    }
    l->stream = fdopen(fd, "wb");
    if (!l->stream) {
        close(fd);
        return error_set(err, "out of memory");
    }
    return fseeko(l->stream, 8 + header_bytes(l), SEEK_SET) < 0 ? cannot_write(l, err) : 0;
}

struct logits *logits_create(const char *path, int64_t prompts, int64_t vocabulary,
                             struct error *err)
{
    struct logits *l = xcalloc(1, sizeof(*l));
    size_t size = strlen(path) + sizeof(".new");

    l->vocabulary = vocabulary;
    l->prompts = prompts;
    l->path = xstrdup(path);
    l->temporary = xmalloc(size);
    l->lengths = xcalloc((size_t)prompts, sizeof(*l->lengths));
    snprintf(l->temporary, size, "%s.new", path);
    if (open_temporary(l, err) == 0)
        return l;
    logits_destroy(l);
    return NULL;
}

int logits_next(struct logits *l, const int32_t *tokens, int64_t count, struct error *err)
{
    l->lengths[l->count++] = count;
    return fwrite(tokens, sizeof(*tokens), (size_t)count, l->stream) == (size_t)count
               ? 0
               : cannot_write(l, err);
}

int logits_add(struct logits *l, const float *rows, int64_t count, struct error *err)
{
    size_t numbers = (size_t)(count * l->vocabulary);

    return fwrite(rows, sizeof(*rows), numbers, l->stream) == numbers ? 0 : cannot_write(l, err);
}

static char *make_header(const struct logits *l)
{
    size_t room = (size_t)header_bytes(l) + 1;
    char *text = malloc(room);
    int64_t at = 0;
    size_t used;

    if (!text)
        return NULL;
    used = (size_t)snprintf(text, room, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int64_t i = 0; i < l->count; i++) {
        int64_t n = l->lengths[i], middle = at + n * 4, end = middle + n * l->vocabulary * 4;

        used += (size_t)snprintf(text + used, room - used,
                                 ",\"tokens.%" PRId64 "\":{\"dtype\":\"I32\",\"shape\":[%" PRId64
                                 "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}"
                                 ",\"logits.%" PRId64 "\":{\"dtype\":\"F32\",\"shape\":[%" PRId64
                                 ",%" PRId64 "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}",
                                 i, n, at, middle, i, n, l->vocabulary, middle, end);
        at = end;
    }
    used += (size_t)snprintf(text + used, room - used, "}");
    memset(text + used, ' ', room - used);
    return text;
}

int logits_finish(struct logits *l, struct error *err)
{
    uint64_t length = (uint64_t)header_bytes(l);
    unsigned char size[8];
    char *header = make_header(l);
    int rc;

    if (!header)
        return error_set(err, "out of memory");
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)(length >> (8 * i) & 255);
    rc = fseeko(l->stream, 0, SEEK_SET) < 0 || fwrite(size, 1, 8, l->stream) != 8 ||
                 fwrite(header, 1, length, l->stream) != length || fflush(l->stream) != 0 ||
                 fsync(fileno(l->stream)) < 0
             ? cannot_write(l, err)
             : 0;
    free(header);
    if (fclose(l->stream) != 0 && rc == 0)
        rc = cannot_write(l, err);
    l->stream = NULL;
    if (rc == 0 && rename(l->temporary, l->path) < 0)
        rc = cannot_write(l, err);
    if (rc < 0)
        unlink(l->temporary);
    return rc;
}

void logits_destroy(struct logits *l)
{
    if (!l)
        return;
    if (l->stream) {
        fclose(l->stream);
        unlink(l->temporary);
    }
    free(l->path);
    free(l->temporary);
    free(l->lengths);
    free(l);
}
