#include "download.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DAY = 86400, DIGITS = LAYER_DIGEST_SIZE - 1, RANDOM = 10 };

/* Enroot keeps a layer as DIGEST, and as DIGEST.XXXXXXXXXX until it is whole. */
static int is_unfinished(const char *name)
{
    return strspn(name, "0123456789abcdef") == DIGITS && name[DIGITS] == '.' &&
           strlen(name) == DIGITS + 1 + RANDOM;
}

/* A killed import leaves layers that nobody looks for again. */
static void sweep(const char *cache)
{
    DIR *listed = opendir(cache);
    struct dirent *item;
    struct stat info;

    while (listed && (item = readdir(listed)))
        if (is_unfinished(item->d_name) &&
            fstatat(dirfd(listed), item->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode) && time(NULL) - info.st_mtime > DAY)
            unlinkat(dirfd(listed), item->d_name, 0);
    if (listed)
        closedir(listed);
}

void download_watch(struct download *download, const struct manifest *manifest, const char *cache)
{
    memset(download, 0, sizeof(*download));
    download->manifest = manifest;
    download->begun = time(NULL);
    snprintf(download->cache, sizeof(download->cache), "%s", cache);
    sweep(cache);
    download->before = download_bytes(download);
}

/* Enroot compresses what comes in its own way, so that an unfinished layer has not quite the size
 * of what has come of it; never more than all of it. */
static int64_t size_of_layer(const struct download *download, DIR *cache,
                             const struct manifest_layer *layer)
{
    int64_t most = 0;
    struct dirent *item;
    struct stat info;

    rewinddir(cache);
    while ((item = readdir(cache))) {
        if (strncmp(item->d_name, layer->digest, DIGITS) != 0 ||
            fstatat(dirfd(cache), item->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (item->d_name[DIGITS] == '\0')
            return layer->size;
        /* What an earlier import left does not grow. */
        if (is_unfinished(item->d_name) && info.st_mtime >= download->begun && info.st_size > most)
            most = info.st_size;
    }
    return most < layer->size ? most : layer->size;
}

int64_t download_bytes(const struct download *download)
{
    DIR *cache = opendir(download->cache);
    int64_t bytes = 0;

    for (size_t i = 0; cache && i < download->manifest->count; i++)
        if (download->manifest->layers[i].digest[0])
            bytes += size_of_layer(download, cache, &download->manifest->layers[i]);
    if (cache)
        closedir(cache);
    return bytes;
}
