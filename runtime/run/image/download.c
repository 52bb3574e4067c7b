/* SPDX-License-Identifier: Apache-2.0 */
#include "download.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DAY = 86400, DIGITS = 64, RANDOM = 10 };

/* Enroot stores a layer as DIGEST, and as DIGEST.XXXXXXXXXX until it is complete. */
static int is_unfinished(const char *name)
{
    static const char random[] = "0123456789"
                                 "abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

    return strspn(name, "0123456789abcdef") == DIGITS && name[DIGITS] == '.' &&
           strspn(name + DIGITS + 1, random) == RANDOM && name[DIGITS + 1 + RANDOM] == '\0';
}

/* A killed import leaves layers that are never used again. */
static void sweep(const char *cache)
{
    DIR *listed = opendir(cache);
    struct dirent *item;
    struct stat info;

    while (listed && (item = readdir(listed)))
        if (is_unfinished(item->d_name) &&
            fstatat(dirfd(listed), item->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode) && info.st_uid == geteuid() && time(NULL) - info.st_mtime > DAY)
            unlinkat(dirfd(listed), item->d_name, 0);
    if (listed)
        closedir(listed);
}

void download_watch(struct download *download, const char *cache)
{
    memset(download, 0, sizeof(*download));
    download->begun = time(NULL);
    snprintf(download->cache, sizeof(download->cache), "%s", cache);
    sweep(cache);
}

int64_t download_bytes(const struct download *download)
{
    DIR *cache = opendir(download->cache);
    int64_t bytes = 0;
    struct dirent *item;
    struct stat info;

    while (cache && (item = readdir(cache)))
        if (strspn(item->d_name, "0123456789abcdef") == DIGITS &&
            fstatat(dirfd(cache), item->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            info.st_mtime >= download->begun)
            bytes += info.st_size;
    if (cache)
        closedir(cache);
    return bytes;
}
