/* SPDX-License-Identifier: Apache-2.0 */
/* The report: one HTML file that needs nothing else.
 *
 *     const char *words[] = {"runs/7b"};
 *     struct input_options options = {.words = words, .word_count = 1, .peak = NAN};
 *     struct input input;
 *
 *     if (input_read(&input, &options, err) == 0)
 *         page_write(&input, file);
 *     input_clear(&input);
 */
#ifndef MEGATRON_REPORT_PAGE_H
#define MEGATRON_REPORT_PAGE_H

#include <stdio.h>

#include "input.h"

/* Write the page. Equal input gives equal bytes. */
void page_write(const struct input *input, FILE *html);

#endif
