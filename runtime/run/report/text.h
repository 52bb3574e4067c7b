/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEGATRON_REPORT_TEXT_H
#define MEGATRON_REPORT_TEXT_H

#include <stdio.h>

/* Write a text from a file as HTML text, also valid inside a quoted attribute. Control characters
 * become U+FFFD; so do, in the browser, bytes that are not UTF-8. */
void text_escape(const char *words, FILE *html);

#endif
