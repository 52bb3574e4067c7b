/* SPDX-License-Identifier: Apache-2.0 */
#include "mounts.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_MOUNTS = 256, FIELDS = 3 };

static const char *const known_flags[] = {
    "ro",       "rw",           "bind",          "rbind",    "nosuid",  "suid",
    "nodev",    "dev",          "noexec",        "exec",     "slave",   "rslave",
    "nofail",   "x-create=dir", "x-create=file", "relatime", "noatime", "private",
    "rprivate", "silent",       "x-create=auto",
};

static bool flag_is_known(const char *flag, size_t length)
{
    for (size_t i = 0; i < sizeof(known_flags) / sizeof(known_flags[0]); i++)
        if (strlen(known_flags[i]) == length && strncmp(known_flags[i], flag, length) == 0)
            return true;
    return false;
}

/* Copy one field up to an unescaped ':' or ','. Returns the position of its end. */
static const char *copy_field(const char *text, char *field)
{
    while (*text && *text != ',' && *text != ':') {
        if (*text == '\\' && (text[1] == ',' || text[1] == ':' || text[1] == '\\'))
            text++;
        *field++ = *text++;
    }
    *field = '\0';
    return text;
}

static int check_path(const char *what, const char *name, char *path, struct error *err)
{
    size_t length = strlen(path);

    if (path[0] != '/')
        return error_set(err, "%s: the %s \"%.200s\" is not an absolute path; begin it with /",
                         what, name, path);
    for (const char *c = path; *c; c++)
        if (iscntrl((unsigned char)*c))
            return error_set(err, "%s: the %s contains a control character; remove it", what, name);
    while (length > 1 && path[length - 1] == '/')
        path[--length] = '\0';
    return 0;
}

/* Normalize an absolute path: remove "//", "/./" and a trailing "/" or "/.". */
static void tidy_path(char *path)
{
    char *to = path;

    for (const char *from = path; *from;) {
        size_t length;

        from += strspn(from, "/");
        length = strcspn(from, "/");
        if (length > 0 && !(length == 1 && from[0] == '.')) {
            *to++ = '/';
            memmove(to, from, length);
            to += length;
        }
        from += length;
    }
    if (to == path)
        *to++ = '/';
    *to = '\0';
}

static bool has_parent(const char *path)
{
    for (const char *at = strstr(path, "/.."); at; at = strstr(at + 1, "/.."))
        if (at[3] == '/' || at[3] == '\0')
            return true;
    return false;
}

/* Convert the user's "ro+nosuid" to mount(8) options. Always bind, and create the target. */
static char *complete_flags(const char *what, const char *given, struct error *err)
{
    const char *all = given;
    char flags[256];
    size_t used = (size_t)snprintf(flags, sizeof(flags), "x-create=auto,rbind");

    while (*given) {
        size_t length = strcspn(given, "+");

        if (!flag_is_known(given, length)) {
            error_set(
                err,
                "%s: unknown mount flag \"%.*s\"; use ro, rw, nosuid, nodev, noexec, private, "
                "slave or x-create=dir|file, joined by +",
                what, (int)(length < 100 ? length : 100), given);
            return NULL;
        }
        if (used + length + 2 > sizeof(flags)) {
            error_set(err, "%s: \"%.100s\" has too many mount flags; give each flag once", what,
                      all);
            return NULL;
        }
        flags[used++] = ',';
        memcpy(flags + used, given, length);
        used += length;
        flags[used] = '\0';
        if (given[length] == '+' && given[length + 1] == '\0') {
            error_set(err, "%s: the mount flags \"%.100s\" end with +; add a flag, or drop the +",
                      what, all);
            return NULL;
        }
        given += length + (given[length] == '+');
    }
    return strdup(flags);
}

static int add_mount(const char *what, struct container_mounts *mounts, char *fields[FIELDS],
                     int count, struct error *err)
{
    struct container_mount *mount = &mounts->items[mounts->count];
    char *target = count > 1 ? fields[1] : fields[0];

    if (check_path(what, "source", fields[0], err) < 0 ||
        check_path(what, "target", target, err) < 0)
        return -1;
    tidy_path(target);
    if (has_parent(target))
        return error_set(err,
                         "%s: the target %.200s must not contain ..; write the path without it",
                         what, target);
    if (strcmp(target, "/") == 0)
        return error_set(err, "%s: cannot mount over / of the image; choose another target", what);
    for (size_t i = 0; i < mounts->count; i++)
        if (strcmp(mounts->items[i].target, target) == 0)
            return error_set(err, "%s: the target %.200s is given twice; drop one of the mounts",
                             what, target);
    if (count > 2 && !fields[2][0])
        return error_set(
            err, "%s: no mount flags after %.200s:; add flags such as ro, or drop the colon", what,
            target);
    mount->flags = complete_flags(what, count > 2 ? fields[2] : "", err);
    if (!mount->flags)
        return -1;
    mount->source = strdup(fields[0]);
    mount->target = strdup(target);
    mounts->count++;
    return mount->source && mount->target ? 0 : error_set(err, "out of memory");
}

static int parse_entries(const char *what, const char *text, char *space,
                         struct container_mounts *mounts, struct error *err)
{
    while (*text) {
        char *fields[FIELDS];
        char *next = space;
        int count = 0;

        do {
            if (count == FIELDS)
                return error_set(
                    err,
                    "%s: too many colons before \"%.200s\": a mount is SRC:DST[:FLAGS]; write \\: "
                    "for a colon in a path",
                    what, text);
            fields[count++] = next;
            text = copy_field(text, next);
            next += strlen(next) + 1;
        } while (*text == ':' && *text++);
        if (mounts->count == MOST_MOUNTS)
            return error_set(err, "%s: more than %d mounts; mount their parent directories instead",
                             what, MOST_MOUNTS);
        if (add_mount(what, mounts, fields, count, err) < 0)
            return -1;
        if (*text == ',' && *++text == '\0')
            return error_set(err, "%s ends with a comma; drop it", what);
    }
    return 0;
}

int mounts_parse(const char *what, const char *text, struct container_mounts *mounts,
                 struct error *err)
{
    char *space = malloc(strlen(text) + FIELDS + 1);
    int rc;

    memset(mounts, 0, sizeof(*mounts));
    mounts->items = calloc(MOST_MOUNTS, sizeof(*mounts->items));
    if (!space || !mounts->items)
        rc = error_set(err, "out of memory");
    else if (text[0] == '\0')
        rc = error_set(err, "%s is empty; write SRC:DST[:FLAGS], such as /data:/data:ro", what);
    else
        rc = parse_entries(what, text, space, mounts, err);
    free(space);
    return rc;
}

int mounts_check_sources(const char *what, const struct container_mounts *mounts, struct error *err)
{
    struct stat info;

    for (size_t i = 0; i < mounts->count; i++) {
        if (strstr(mounts->items[i].flags, "nofail"))
            continue;
        if (stat(mounts->items[i].source, &info) < 0)
            return error_set(err,
                             "%s: cannot mount %.300s: %s; create it on the node, or add the flag "
                             "nofail",
                             what, mounts->items[i].source, strerror(errno));
    }
    return 0;
}

static int escape(const char *path, char *buffer, size_t size, size_t *used)
{
    for (; *path; path++) {
        bool plain = *path != ' ' && *path != '\t' && *path != '\\' && *path != '#';
        size_t need = plain ? 1 : 4;

        if (*used + need + 1 > size)
            return -1;
        if (plain)
            buffer[*used] = *path;
        else
            snprintf(buffer + *used, 5, "\\%03o", (unsigned char)*path);
        *used += need;
    }
    buffer[*used] = '\0';
    return 0;
}

int mount_format(const struct container_mount *mount, char *buffer, size_t size)
{
    size_t used = 0;
    int length;

    if (escape(mount->source, buffer, size, &used) < 0 || used + 2 > size)
        return -1;
    buffer[used++] = ' ';
    if (escape(mount->target, buffer, size, &used) < 0)
        return -1;
    length = snprintf(buffer + used, size - used, " none %s", mount->flags);
    return length < 0 || (size_t)length >= size - used ? -1 : 0;
}

int mounts_add(struct container_mounts *mounts, const char *source, const char *target,
               const char *flags)
{
    struct container_mount *mount;

    if (!mounts->items)
        mounts->items = calloc(MOST_MOUNTS, sizeof(*mounts->items));
    if (!mounts->items || mounts->count == MOST_MOUNTS)
        return -1;
    mount = &mounts->items[mounts->count++];
    mount->source = strdup(source);
    mount->target = strdup(target);
    mount->flags = strdup(flags);
    return mount->source && mount->target && mount->flags ? 0 : -1;
}

int mounts_copy(struct container_mounts *mounts, const struct container_mounts *from)
{
    for (size_t i = 0; i < from->count; i++)
        if (mounts_add(mounts, from->items[i].source, from->items[i].target, from->items[i].flags) <
            0)
            return -1;
    return 0;
}

void mounts_clear(struct container_mounts *mounts)
{
    for (size_t i = 0; mounts->items && i < MOST_MOUNTS; i++) {
        free(mounts->items[i].source);
        free(mounts->items[i].target);
        free(mounts->items[i].flags);
    }
    free(mounts->items);
    memset(mounts, 0, sizeof(*mounts));
}
