/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines as a shell takes them. */
#ifndef MEGATRON_SHELL_QUOTE_H
#define MEGATRON_SHELL_QUOTE_H

#include <stdio.h>

/* Write one word, in single quotes if a shell would divide or change it. Control characters become
 * spaces, so that the command stays on one line. */
void shell_quote(const char *word, FILE *stream);

#endif
