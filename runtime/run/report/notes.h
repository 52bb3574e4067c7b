/* SPDX-License-Identifier: Apache-2.0 */
/* What was wrong with the input but did not prevent the report: one sentence each, for the terminal
 * and for the page. */
#ifndef MEGATRON_NOTES_H
#define MEGATRON_NOTES_H

#include <stddef.h>

struct notes {
    char *items[64]; /* further notes are dropped */
    size_t count;
};

void notes_add(struct notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));
void notes_clear(struct notes *notes);

#endif
