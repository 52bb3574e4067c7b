/* What was found fastest, kept in a file: a key (one word) and its value (one word) per line. The
 * file belongs to one kind of GPU and one version of the libraries. */
#ifndef MEGATRON_TUNING_H
#define MEGATRON_TUNING_H

#include "error.h"

struct tuning;

/* Read 'directory'/'name' if it is there; a file that cannot be read or understood counts as empty.
 * 'directory' NULL: nothing is kept. NULL only when memory runs out. */
struct tuning *tuning_open(const char *directory, const char *name);

/* At the end of a value: not all that there is was tried to find it. */
#define TUNING_PROVISIONAL '?'
int tuning_is_provisional(const char *value);

/* The value of 'key', or NULL. Valid until the next of the calls below. */
const char *tuning_get(struct tuning *tuning, const char *key);
int tuning_put(struct tuning *tuning, const char *key, const char *value, struct error *err);

/* Say in the file that 'key' is being tried, until tuning_put. Returns -1 if the file cannot be
 * written, or says so since before it was opened: a process ended while it tried, or runs still,
 * which cannot be told, and what is put then should be provisional. That others try the same since
 * then does not count. */
int tuning_try(struct tuning *tuning, const char *key);

/* What was got, put or taken by this process, as lines like the file's behind one that names it; to
 * free. NULL only when memory runs out. */
char *tuning_text(const struct tuning *tuning);

/* Take such lines in place of what is known. With 'keep' the next save brings them into the file,
 * whatever other processes wrote there, else this process leaves it to others. Returns -1 and takes
 * none if they were made for another file, that is another kind of GPU or version of the libraries.
 */
int tuning_take(struct tuning *tuning, const char *text, int keep, struct error *err);

/* Write the file if anything is new: to a temporary name, synced, renamed, and others wait so long.
 * What other processes wrote there meanwhile stays, also where this one uses another value; where
 * that is all that is new here, nothing is written. What was taken to keep replaces theirs, and so
 * does a value in the place of a trial, of a provisional one, or of one that was there from the
 * beginning and could not be used. */
int tuning_save(struct tuning *tuning, struct error *err);
void tuning_destroy(struct tuning *tuning);

#endif
