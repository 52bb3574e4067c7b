/* SPDX-License-Identifier: Apache-2.0 */
/* Read small files, such as those in /proc. */
#ifndef MEGATRON_FILES_H
#define MEGATRON_FILES_H

#include <stddef.h>

/* Read up to 'size' - 1 bytes of a file and NUL-terminate them. Symbolic links are not followed.
 * Returns 0, or -1 with an empty text if the file cannot be read. */
int small_file_read(const char *path, char *text, size_t size);

/* The same for an open descriptor 'fd' (-1: the file could not be opened). Closes it. */
int small_file_read_open(int fd, char *text, size_t size);

#endif
