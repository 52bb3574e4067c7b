/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: copies the content of a JSON string and decodes one-letter escapes. The JSON
 * library handles one escape at a time, and newlines alone would make that a tenth of the work on a
 * document. Here all backslashes among 64 bytes are found at once. Other escapes (\uXXXX, or
 * invalid ones) are left to the library. */
#ifndef MEGATRON_CORPUS_UNESCAPE_H
#define MEGATRON_CORPUS_UNESCAPE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Number of bytes after 'from' + 'size' that are read, and after the result that are written. */
enum { UNESCAPE_PADDING = 64 };

/* Copy 'size' bytes from 'from' to 'to', decoding one-letter escapes, up to the first other escape.
 * Returns the number of bytes written; '*taken' is the number read: all, or up to the backslash of
 * the other escape. */
size_t unescape(const char *from, size_t size, char *to, size_t *taken);

#ifdef __cplusplus
}
#endif
#endif
