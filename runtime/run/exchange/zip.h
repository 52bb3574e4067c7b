/* SPDX-License-Identifier: Apache-2.0 */
/* Zip archives in memory: the list of members, each checked before it is returned. Compressed or
 * encrypted members are rejected; PyTorch stores them uncompressed. */
#ifndef MEGATRON_ZIP_H
#define MEGATRON_ZIP_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"

struct zip_member {
    const char *name; /* 'length' characters, not NUL-terminated */
    size_t length;
    const unsigned char *data;
    size_t size;
    uint32_t crc;
};

struct zip;

/* Do these bytes start like an archive? */
int zip_is(const void *bytes, size_t size);

/* The archive in 'bytes', which must outlive it. Returns NULL with 'err' set. Caller must destroy.
 */
struct zip *zip_open(const void *bytes, size_t size, struct error *err);
void zip_destroy(struct zip *zip);

/* The member called 'name', or NULL; the first member whose name ends with 'tail'. */
const struct zip_member *zip_find(const struct zip *zip, const char *name);
const struct zip_member *zip_find_tail(const struct zip *zip, const char *tail);

/* Does the member's data match the archive's checksum? */
int zip_check(const struct zip_member *member, struct error *err);

#endif
