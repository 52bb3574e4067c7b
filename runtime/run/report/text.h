/* SPDX-License-Identifier: Apache-2.0 */
/* Text that grows. If memory runs out, 'failed' is set and later calls do nothing. */
#ifndef MEGATRON_TEXT_H
#define MEGATRON_TEXT_H

#include <stddef.h>

struct text {
    char *data; /* ends with a NUL, or NULL if empty */
    size_t length, capacity;
    int failed;
};

void text_clear(struct text *text);
void text_add_bytes(struct text *text, const char *bytes, size_t count);
void text_add(struct text *text, const char *words);
void text_printf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Add a name from a file as HTML text, also valid inside a quoted attribute. Control characters
 * and bytes that are not UTF-8 become U+FFFD. */
void text_escape(struct text *text, const char *words);

/* Add a number with at most 'digits' significant digits, as JSON and SVG take it; not finite:
 * null. */
void text_number(struct text *text, double value, int digits);

#endif
