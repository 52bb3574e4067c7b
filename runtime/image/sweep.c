/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep.h"
#include "file.h"
#include "lease.h"
#include "owner.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NEW_SECONDS = 60, SILENT_SECONDS = 600, UNKNOWN_SECONDS = 86400 };

/* A sweep of one directory. */
struct swept {
    const char *directory;
    DIR *listed;
    const char *keep;
    time_t now, age;
};

/* Call 'sweep' for each file. */
static void for_each(struct swept *swept,
                     void (*sweep)(struct swept *swept, const char *name, const struct stat *info))
{
    struct dirent *item;
    struct stat info;

    swept->listed = opendir(swept->directory);
    if (!swept->listed)
        return;
    while ((item = readdir(swept->listed)))
        if (fstatat(dirfd(swept->listed), item->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode))
            sweep(swept, item->d_name, &info);
    closedir(swept->listed);
}

static int ends_with(const char *name, const char *ending)
{
    size_t length = strlen(name), tail = strlen(ending);

    return length >= tail && strcmp(name + length - tail, ending) == 0;
}

/* A server's clock may differ from this node's: touch the directory and read its time. */
static time_t time_there(int directory)
{
    struct stat info;

    if (futimens(directory, NULL) < 0 || fstat(directory, &info) < 0)
        return time(NULL);
    return info.st_mtime;
}

/* How many seconds may the file remain unchanged? */
static time_t patience_for(enum owner_fate fate, int is_new)
{
    if (fate == OWNER_UNKNOWN)
        return UNKNOWN_SECONDS;
    if (fate == OWNER_GONE)
        return -1;
    return is_new ? NEW_SECONDS : SILENT_SECONDS;
}

static void sweep_one(struct swept *swept, const char *name, const struct stat *info)
{
    int is_new = ends_with(name, ".new"), is_draft = is_new || ends_with(name, ".draft");
    const char *owner = is_draft ? strrchr(name, '@') : NULL;
    char path[4096], text[LEASE_TEXT_SIZE] = "";
    time_t patience;

    if (snprintf(path, sizeof(path), "%s/%s", swept->directory, name) >= (int)sizeof(path))
        return;
    if (!is_draft)
        file_read_text(path, text, sizeof(text));
    patience = patience_for(owner_fate(owner ? owner + 1 : text), is_new);
    if (swept->now == 0)
        swept->now = time_there(dirfd(swept->listed));
    if (patience >= 0 && swept->now - info->st_mtime <= patience)
        return;
    if (is_draft)
        unlink(path);
    else
        lease_break(path, text);
}

void sweep_unfinished(const char *directory)
{
    struct swept swept = {.directory = directory};

    for_each(&swept, sweep_one);
}

static void sweep_old(struct swept *swept, const char *name, const struct stat *info)
{
    if (swept->now - info->st_mtime > swept->age)
        unlinkat(dirfd(swept->listed), name, 0);
}

void sweep_older(const char *directory, time_t age)
{
    struct swept swept = {.directory = directory, .now = time(NULL), .age = age};

    for_each(&swept, sweep_old);
}

static void sweep_other(struct swept *swept, const char *name, const struct stat *info)
{
    (void)info;
    if (strcmp(name, swept->keep) != 0)
        unlinkat(dirfd(swept->listed), name, 0);
}

void sweep_all_but(const char *directory, const char *keep)
{
    struct swept swept = {.directory = directory, .keep = keep};

    for_each(&swept, sweep_other);
}
