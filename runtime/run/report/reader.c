/* SPDX-License-Identifier: Apache-2.0 */
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longer lines are ignored. Read in pieces of the second size. */
enum { LONGEST_LINE = 1 << 20, PIECE = 1 << 21 };

struct attempt *reader_attempt(struct reader *r, struct attempt **slot, int fresh,
                               struct error *err)
{
    if (*slot && !fresh)
        return *slot;
    if (*slot && r->attempts->count >= MOST_ATTEMPTS) {
        r->crowded = 1;
        return *slot;
    }
    *slot = attempts_add(r->attempts, r->name, err);
    return *slot;
}

static int take_line(struct reader *r, char *line, size_t length, int whole, struct error *err)
{
    char *first = line;

    if (length > 0 && line[length - 1] == '\r')
        length--;
    line[length] = '\0';
    if (strlen(line) != length) /* NUL bytes, as a crashed file system leaves them */
        return 0;
    while (*first == ' ' || *first == '\t')
        first++;
    if (*first == '{')
        return reader_json_line(r, first, length - (size_t)(first - line), whole, err);
    return reader_log_line(r, line, whole, err);
}

/* Hand on all whole lines of the buffer; returns how many bytes that were, or -1. */
static ssize_t take_lines(struct reader *r, char *buffer, size_t used, int *skipping,
                          struct error *err)
{
    char *line = buffer, *end;

    while ((end = memchr(line, '\n', used - (size_t)(line - buffer)))) {
        if (!*skipping && take_line(r, line, (size_t)(end - line), 1, err) < 0)
            return -1;
        *skipping = 0;
        line = end + 1;
    }
    return line - buffer;
}

static int read_lines(struct reader *r, int fd, char *buffer, struct error *err)
{
    size_t used = 0;
    int skipping = 0;

    for (;;) {
        ssize_t got = read(fd, buffer + used, PIECE - used), taken;

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            struct error why;

            error_set_errno(&why, errno, "cannot read all of %s", r->name);
            notes_add(r->notes, "%s", why.text);
            return 0;
        }
        if (got == 0)
            return used > 0 && !skipping ? take_line(r, buffer, used, 0, err) : 0;
        used += (size_t)got;
        taken = take_lines(r, buffer, used, &skipping, err);
        if (taken < 0)
            return -1;
        used -= (size_t)taken;
        memmove(buffer, buffer + taken, used);
        if (used > LONGEST_LINE) {
            skipping = 1;
            used = 0;
        }
    }
}

static void note_trouble(const struct reader *r)
{
    if (r->torn > 0)
        notes_add(r->notes, "%s: %" PRId64 " %s truncated; what is complete in %s is used", r->name,
                  r->torn, r->torn == 1 ? "line is" : "lines are", r->torn == 1 ? "it" : "them");
    if (r->foreign > 0)
        notes_add(r->notes,
                  "%s: %" PRId64 " %s of version %" PRId64
                  ", which this program does not read; use a newer megatron",
                  r->name, r->foreign, r->foreign == 1 ? "record is" : "records are",
                  r->foreign_version);
    if (r->crowded)
        notes_add(r->notes,
                  "%s: the iteration number goes back over %d times, as if several runs write to "
                  "this file; give each run its own log",
                  r->name, MOST_ATTEMPTS);
}

int reader_file(const char *path, struct attempts *attempts, struct extras *extras,
                struct notes *notes, struct error *err)
{
    struct reader r = {.attempts = attempts, .extras = extras, .notes = notes, .name = path};
    char *buffer = malloc(PIECE + 1);
    int fd, rc;

    if (!buffer)
        return error_set(err, "out of memory");
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        struct error why;

        error_set_errno(&why, errno, "cannot read %s", path);
        notes_add(notes, "%s", why.text);
        free(buffer);
        return 0;
    }
    rc = read_lines(&r, fd, buffer, err);
    close(fd);
    free(buffer);
    if (rc == 0)
        note_trouble(&r);
    return rc;
}
