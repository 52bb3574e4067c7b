/* Small files, written whole or not at all, and time. */
#ifndef MEGATRON_FILES_H
#define MEGATRON_FILES_H

#include <stddef.h>
#include <sys/types.h>
#include "error.h"

/* Read up to 'size' - 1 bytes of a file into 'text' and end it with a zero. Links are not followed.
 * Returns 0, or -1 with an empty text where the file cannot be read. */
int small_file_read(const char *path, char *text, size_t size);

/* The same where 'owner' or root owns the file; somebody else's cannot be read. */
int small_file_read_of(const char *path, uid_t owner, char *text, size_t size);

/* Make the program 'path', which is not there yet, of this text. Returns 0 or -1. */
int small_program_write(const char *path, const char *text);

/* Give the file 'path' the contents 'text' in one step: a draft in directory 'work' of the same
 * file system (sweep.h), fsync, rename. Returns 0 or -1. */
int small_file_replace(const char *path, const char *work, const char *text, struct error *err);

/* Write all of it, in as many calls as it takes. Returns 0 or -1 (errno). */
int bytes_write(int to, const char *bytes, size_t count);

/* List a directory, which makes network file systems forget that a name was not there. */
void directory_refresh(const char *path);

/* Seconds of a clock that only goes forward; sleep for so long, or for about so long: by chance up
 * to a quarter more or less, so that not all who wait come at once. */
double seconds_now(void);
void seconds_sleep(double seconds);
void seconds_sleep_about(double seconds);

#endif
