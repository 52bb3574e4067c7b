/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep.h"
#include "lib/file.h"
#include "lib/lease.h"
#include "lib/owner.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NEW_SECONDS = 60, SILENT_SECONDS = 600, EMPTY_SECONDS = 86400 };

static const char *const small_drafts[] = {"record@%o.new", "lease@%o.new", NULL};
static const char *const image_drafts[] = {"%k@%o.draft", NULL};

/* The length of what '%kind' stands for at the start of 'name', 0 if it is not there. 'rest' is the
 * pattern that follows. */
static size_t part_length(char kind, const char *name, const char *rest)
{
    static const char hexadecimal[] = "0123456789abcdef", key[] = "sha256-";
    size_t digits, length = strlen(name), tail = strlen(rest);

    switch (kind) {
    case 'k':
        length = strlen(key);
        return strncmp(name, key, length) == 0 && strspn(name + length, hexadecimal) >= 64
                   ? length + 64
                   : 0;
    case 'o':
        return owner_length(name);
    case 'w':
        return length > tail ? length - tail : 0;
    default:
        digits = kind == 'h' ? 2 : 16;
        return strspn(name, hexadecimal) >= digits ? digits : 0;
    }
}

static bool matches(const char *name, const char *pattern)
{
    for (; *pattern; pattern++) {
        size_t length;

        if (*pattern != '%') {
            if (*name++ != *pattern)
                return false;
            continue;
        }
        pattern++;
        length = part_length(*pattern, name, pattern + 1);
        if (length == 0)
            return false;
        name += length;
    }
    return *name == '\0';
}

DIR *sweep_list(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *listed = fd < 0 ? NULL : fdopendir(fd);

    if (!listed && fd >= 0)
        close(fd);
    return listed;
}

bool sweep_is_own(const char *name, const char *const *patterns)
{
    for (; *patterns; patterns++)
        if (matches(name, *patterns))
            return true;
    return false;
}

/* A sweep of one directory. */
struct swept {
    int directory;
    const char *const *patterns;
    time_t now, age;
};

/* Call 'sweep' for each file. */
static void for_each(struct swept *swept,
                     void (*sweep)(struct swept *swept, const char *name, const struct stat *info))
{
    DIR *listed = sweep_list(swept->directory, ".");
    struct dirent *item;
    struct stat info;

    while (listed && (item = readdir(listed)))
        if (fstatat(swept->directory, item->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode))
            sweep(swept, item->d_name, &info);
    if (listed)
        closedir(listed);
}

/* A server's clock may differ from this node's: touch the directory and read its time. */
static time_t time_there(int directory)
{
    struct stat info;

    if (utimensat(directory, ".", NULL, 0) < 0 || fstatat(directory, ".", &info, 0) < 0)
        return time(NULL);
    return info.st_mtime;
}

/* How many seconds may the file remain unchanged? */
static time_t patience_for(enum owner_fate fate, bool is_new)
{
    if (fate == OWNER_UNKNOWN)
        return EMPTY_SECONDS;
    if (fate == OWNER_GONE)
        return -1;
    return is_new ? NEW_SECONDS : SILENT_SECONDS;
}

static void sweep_one(struct swept *swept, const char *name, const struct stat *info)
{
    bool is_new = sweep_is_own(name, small_drafts);
    bool is_draft = is_new || sweep_is_own(name, image_drafts);
    char text[LEASE_TEXT_SIZE] = "";
    time_t patience;

    if (!is_draft) {
        if (!sweep_is_own(name, swept->patterns))
            return;
        lease_read(swept->directory, name, text);
        /* A user's file may also have such a name. A lease whose creator was killed is empty. */
        if (owner_length(text) == 0 && info->st_size > 0)
            return;
    }
    patience = patience_for(owner_fate(is_draft ? strchr(name, '@') + 1 : text), is_new);
    if (swept->now == 0)
        swept->now = time_there(swept->directory);
    if (patience >= 0 && swept->now - info->st_mtime <= patience)
        return;
    if (is_draft)
        unlinkat(swept->directory, name, 0);
    else
        lease_break(swept->directory, name, text);
}

void sweep_unfinished(int directory, const char *const *leases)
{
    struct swept swept = {.directory = directory, .patterns = leases};

    for_each(&swept, sweep_one);
}

static void sweep_old(struct swept *swept, const char *name, const struct stat *info)
{
    if (sweep_is_own(name, swept->patterns) &&
        (swept->age < 0 || swept->now - info->st_mtime > swept->age))
        unlinkat(swept->directory, name, 0);
}

void sweep_older(int directory, const char *const *patterns, time_t age)
{
    struct swept swept = {
        .directory = directory, .patterns = patterns, .now = time(NULL), .age = age};

    for_each(&swept, sweep_old);
}
