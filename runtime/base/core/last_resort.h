/* SPDX-License-Identifier: Apache-2.0 */
/* Exit a process that cannot exit in any other way: a thread is inside a library call that will not
 * return, so an error cannot reach main(). */
#ifndef MEGATRON_LAST_RESORT_H
#define MEGATRON_LAST_RESORT_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Print "megatron: TEXT" and exit with code 1. Callable from any thread. */
__attribute__((noreturn)) static inline void last_resort(const char *text)
{
    char line[1100];

    snprintf(line, sizeof(line) - 1, "megatron: %s", text);
    strcat(line, "\n");
    if (write(STDERR_FILENO, line, strlen(line)) < 0)
        _exit(1);
    _exit(1);
}

#endif
