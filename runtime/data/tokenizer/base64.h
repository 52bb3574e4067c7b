/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEGATRON_BASE64_H
#define MEGATRON_BASE64_H

#include <stddef.h>
#include <stdint.h>

/* Decode 'length' characters into 'out', which has room for as many bytes and may be 'text' itself.
 * Returns the number of bytes, or SIZE_MAX if this is not base64. */
size_t base64_decode(const char *text, size_t length, uint8_t *out);

#endif
