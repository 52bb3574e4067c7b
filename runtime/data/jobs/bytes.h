/* SPDX-License-Identifier: Apache-2.0 */
/* Serialization of small files, whose checksum detects incomplete ones.
 *
 *     bytes_begin(&bytes, MAGIC);                          bytes_load(&bytes, MAGIC, path, err);
 *     bytes_put_u64(&bytes, 42);                           answer = bytes_take_u64(&bytes);
 *     bytes_save(&bytes, path, 0, err);                    bytes_clear(&bytes); */
#ifndef MEGATRON_JOBS_BYTES_H
#define MEGATRON_JOBS_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include "lib/checksum.h"
#include "lib/error.h"

/* A buffer to write to ('put') or read from ('take'). */
struct bytes {
    unsigned char *data;
    size_t size, capacity, at;
    int failed; /* a take went beyond the end */
};
void bytes_put(struct bytes *bytes, const void *data, size_t size);
/* Make room for 'more' bytes of a size that the input determines. Returns 0, or -1 if out of
 * memory.
 */
int bytes_reserve(struct bytes *bytes, size_t more);
void bytes_put_u64(struct bytes *bytes, uint64_t value);
void bytes_put_text(struct bytes *bytes, const char *text);
const void *bytes_take(struct bytes *bytes, size_t size);
uint64_t bytes_take_u64(struct bytes *bytes);
/* A copy that the caller frees; NULL on failure. */
char *bytes_take_text(struct bytes *bytes);
void bytes_clear(struct bytes *bytes);

/* A file consists of a magic number, the data and a checksum. bytes_save also clears; with 'first'
 * it keeps an existing file. bytes_load returns 0, 1 if there is no complete file of this kind, or
 * -1. */
void bytes_begin(struct bytes *bytes, uint64_t magic);
int bytes_save(struct bytes *bytes, const char *path, int first, struct error *err);
int bytes_load(struct bytes *bytes, uint64_t magic, const char *path, struct error *err);

#endif
