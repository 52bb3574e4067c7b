/* What was found fastest, kept in a file: a key (one word) and its value (one word) per line. The
 * file belongs to one kind of GPU and one version of the libraries. */
#ifndef MEGATRON_TUNING_H
#define MEGATRON_TUNING_H

#include "error.h"

struct tuning;

/* Read 'directory'/'name' if it is there; a file that cannot be read or understood counts as empty.
 * 'directory' NULL: nothing is kept. NULL only when memory runs out. */
struct tuning *tuning_open(const char *directory, const char *name);

/* The value of 'key', or NULL. Valid until the next tuning_put. */
const char *tuning_get(const struct tuning *tuning, const char *key);
int tuning_put(struct tuning *tuning, const char *key, const char *value, struct error *err);

/* Write the file if anything is new: to a temporary name, synced, renamed. What other processes
 * wrote meanwhile under other keys stays. */
int tuning_save(struct tuning *tuning, struct error *err);
void tuning_destroy(struct tuning *tuning);

#endif
