/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEGATRON_REPORT_TEXT_H
#define MEGATRON_REPORT_TEXT_H

#include <stdio.h>

/* Write a name from a file as HTML text, also valid inside a quoted attribute. Control characters
 * and bytes that are not UTF-8 become U+FFFD. */
void text_escape(const char *words, FILE *html);

#endif
