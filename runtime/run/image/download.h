/* SPDX-License-Identifier: Apache-2.0 */
/* How much of an image has been downloaded from the registry, according to Enroot's own layer
 * cache. */
#ifndef MEGATRON_DOWNLOAD_H
#define MEGATRON_DOWNLOAD_H

#include <stdint.h>
#include <time.h>

struct download {
    char cache[2048]; /* Enroot's directory */
    time_t begun;
};

/* Start watching Enroot's 'cache', and remove layers that imports killed over a day ago left there.
 */
void download_watch(struct download *download, const char *cache);

/* Total size of all layers that have changed since then. */
int64_t download_bytes(const struct download *download);

#endif
