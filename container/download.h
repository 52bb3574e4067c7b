/* How much of an image's layers has come from the registry, by what lies in Enroot's own cache. */
#ifndef MEGATRON_DOWNLOAD_H
#define MEGATRON_DOWNLOAD_H

#include <stdint.h>
#include <time.h>
#include "manifest.h"

struct download {
    const struct manifest *manifest;
    char cache[2048]; /* Enroot's */
    int64_t before;   /* what was there when it began */
    time_t begun;
};

/* Begin to watch Enroot's 'cache'; also remove what killed imports left there a day ago. */
void download_watch(struct download *download, const struct manifest *manifest, const char *cache);

/* Bytes of the layers that are there; at most those of the manifest. */
int64_t download_bytes(const struct download *download);

#endif
