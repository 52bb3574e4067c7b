/* The inside of a JSON string -> its text, as far as that is a matter of copying.
 *
 * The JSON library does the same one escape at a time, and starts anew behind each; line ends alone
 * make that a tenth of all work on a document. Here the backslashes of 64 bytes are found at once.
 * Whatever is more than one byte for another (\uXXXX) or no escape at all is left to the library.
 */
#ifndef MEGATRON_CORPUS_UNESCAPE_H
#define MEGATRON_CORPUS_UNESCAPE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that may be read behind 'from' + 'size' and written behind what is returned. */
enum { UNESCAPE_PADDING = 64 };

/* Copy 'size' bytes from 'from' to 'to' with escapes of one letter replaced, up to the first other
 * one. Returns how many were written; '*taken' tells how many were read: all, or up to the
 * backslash of that other escape. */
size_t unescape(const char *from, size_t size, char *to, size_t *taken);

#ifdef __cplusplus
}
#endif
#endif
