/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as GPT-2's files write them. */
#ifndef MEGATRON_BYTE_LEVEL_H
#define MEGATRON_BYTE_LEVEL_H

#include <stddef.h>
#include <stdint.h>

/* GPT-2 writes tokens with one printable character per byte. Turn such a text into bytes ('out' has
 * room for 'length'). Returns their number, or SIZE_MAX if a character stands for no byte. */
size_t byte_level_decode(const char *text, size_t length, uint8_t *out);

/* The character that it writes for a byte. */
uint32_t byte_level_character(uint8_t byte);

#endif
