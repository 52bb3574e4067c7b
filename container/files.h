/* Small files, such as those of /proc. */
#ifndef MEGATRON_FILES_H
#define MEGATRON_FILES_H

#include <stddef.h>

/* Read up to 'size' - 1 bytes of a file and terminate the text. Symbolic links are not followed.
 * Returns 0, or -1 with an empty text if the file cannot be read. */
int small_file_read(const char *path, char *text, size_t size);

/* The same for the open file 'fd' (-1: it could not be opened), which is closed. */
int small_file_read_open(int fd, char *text, size_t size);

#endif
