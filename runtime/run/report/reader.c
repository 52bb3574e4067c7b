/* SPDX-License-Identifier: Apache-2.0 */
#include "reader.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longer lines are ignored. Read in pieces of the second size. */
enum { LONGEST_LINE = 1 << 20, PIECE = 1 << 21 };

struct attempt *reader_attempt(struct reader *r, struct attempt **slot, bool fresh)
{
    if (*slot && !fresh)
        return *slot;
    if (*slot && r->attempts->count >= MOST_ATTEMPTS) {
        r->too_many = true;
        return *slot;
    }
    *slot = attempts_add(r->attempts, r->name);
    return *slot;
}

static void take_line(struct reader *r, char *line, size_t length, bool whole)
{
    char *first = line;

    if (length > 0 && line[length - 1] == '\r')
        length--;
    line[length] = '\0';
    if (strlen(line) != length) /* NUL bytes, as a crashed file system leaves them */
        return;
    while (*first == ' ' || *first == '\t')
        first++;
    if (*first == '{')
        reader_json_line(r, first, length - (size_t)(first - line));
    else
        reader_log_line(r, line, whole);
}

/* Pass on the complete lines of the buffer. Returns how many bytes that were. */
static size_t take_lines(struct reader *r, char *buffer, size_t used, bool *skipping)
{
    char *line = buffer, *end;

    while ((end = memchr(line, '\n', used - (size_t)(line - buffer)))) {
        if (!*skipping)
            take_line(r, line, (size_t)(end - line), true);
        *skipping = false;
        line = end + 1;
    }
    return (size_t)(line - buffer);
}

static void read_lines(struct reader *r, int fd, char *buffer)
{
    size_t used = 0, taken;
    bool skipping = false;
    struct error why;
    ssize_t got;

    while ((got = read(fd, buffer + used, PIECE - used)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            error_set_errno(&why, errno, "cannot read all of %s", r->name);
            notes_add(r->notes, "%s", why.text);
            return;
        }
        used += (size_t)got;
        taken = take_lines(r, buffer, used, &skipping);
        used -= taken;
        memmove(buffer, buffer + taken, used);
        if (used > LONGEST_LINE) {
            skipping = true;
            used = 0;
        }
    }
    if (used > 0 && !skipping)
        take_line(r, buffer, used, false);
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
    if (r->too_many)
        notes_add(r->notes,
                  "%s: the iteration number goes back over %d times, as if several runs write to "
                  "this file; give each run its own log",
                  r->name, MOST_ATTEMPTS);
}

void reader_file(const char *path, struct attempts *attempts, struct extras *extras,
                 struct notes *notes)
{
    struct reader r = {.attempts = attempts, .extras = extras, .notes = notes, .name = path};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *buffer;

    if (fd < 0) {
        struct error why;

        error_set_errno(&why, errno, "cannot read %s", path);
        notes_add(notes, "%s", why.text);
        return;
    }
    buffer = xmalloc(PIECE + 1);
    read_lines(&r, fd, buffer);
    close(fd);
    free(buffer);
    note_trouble(&r);
}
