/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of file formats of others. Our own files have XXH3 (checksum.h of lib/). */
#ifndef MEGATRON_CRC_H
#define MEGATRON_CRC_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of 'size' bytes that follow bytes with the checksum 'before' (0: nothing).
 * CRC-32 is that of zip, gzip and Weights & Biases, by zlib if it is linked; CRC-32C (Castagnoli)
 * is that of TensorBoard. */
uint32_t crc32_of(uint32_t before, const void *data, size_t size);
uint32_t crc32c_of(uint32_t before, const void *data, size_t size);

#endif
