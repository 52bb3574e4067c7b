/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the content of a JSON string and replaces simple escapes.
 * The JSON library handles one escape at a time; line ends alone make that a tenth of the work on a
 * document. Here the backslashes of 64 bytes are found at once. Anything but an escape of one
 * letter
 * (\uXXXX, or an invalid one) is left to the library.
 */
#ifndef MEGATRON_CORPUS_UNESCAPE_H
#define MEGATRON_CORPUS_UNESCAPE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that may be read after 'from' + 'size' and written after the result. */
enum { UNESCAPE_PADDING = 64 };

/* Copy 'size' bytes from 'from' to 'to' with escapes of one letter replaced, up to the first other
 * one. Returns how many were written; '*taken' tells how many were read: all, or up to the
 * backslash of that other escape. */
size_t unescape(const char *from, size_t size, char *to, size_t *taken);

#ifdef __cplusplus
}
#endif
#endif
