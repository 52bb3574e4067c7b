/* SPDX-License-Identifier: Apache-2.0 */
/* The report: one HTML file that needs nothing else. */
#ifndef MEGATRON_REPORT_PAGE_H
#define MEGATRON_REPORT_PAGE_H

#include "input.h"
#include "text.h"

/* Write the page. Equal input gives equal bytes. Returns 0 or -1. */
int page_write(const struct input *input, struct text *html, struct error *err);

#endif
