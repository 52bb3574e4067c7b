/* How much of an image has arrived from the registry, as Enroot's own cache of layers shows it. */
#ifndef MEGATRON_DOWNLOAD_H
#define MEGATRON_DOWNLOAD_H

#include <stdint.h>
#include <time.h>

struct download {
    char cache[2048]; /* Enroot's */
    time_t begun;
};

/* Start to watch Enroot's 'cache', and remove layers there that killed imports left a day ago. */
void download_watch(struct download *download, const char *cache);

/* Bytes of all layers that have changed since then. */
int64_t download_bytes(const struct download *download);

#endif
