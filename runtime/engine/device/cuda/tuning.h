/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning results, stored in a file: a key (one word) and its value (one word) per line. A file is
 * specific to one GPU model and one version of the libraries. */
#ifndef MEGATRON_TUNING_H
#define MEGATRON_TUNING_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/error.h"

/* What is timed and how; part of a file's name, so that files of another method are ignored. */
enum { TUNING_METHOD = 9 };

struct tuning;

/* Read 'directory'/'name' if it exists; a file that cannot be read or parsed counts as empty.
 * 'directory' NULL: nothing is stored. For keys that are not there, values come from
 * 'shipped'/'name', a file that was installed with the program and is only read; 'shipped' NULL:
 * there is none. Caller must destroy. */
struct tuning *tuning_open(const char *directory, const char *shipped, const char *name);

/* Save nothing from now on. */
void tuning_read_only(struct tuning *tuning);

/* Suffix of a provisional value: neighbors of its algorithm were not tried, or nothing was timed.
 */
#define TUNING_PROVISIONAL '?'
bool tuning_is_provisional(const char *value);

/* The value of 'key', or NULL. Valid until the next of the calls below. */
const char *tuning_get(struct tuning *tuning, const char *key);
void tuning_put(struct tuning *tuning, const char *key, const char *value);

/* Record in the file that 'key' is being tried, until tuning_put. Returns -1 if the file cannot be
 * written, or if it already had such a record when it was opened: another process died while it
 * tried, or is still running, which cannot be distinguished, and the value put should then be
 * provisional. Records that others have added since then are ignored. */
int tuning_try(struct tuning *tuning, const char *key);

/* End such a record of this process without a value: nothing was chosen. */
void tuning_untry(struct tuning *tuning, const char *key);

/* Everything that was got, put or taken by this process, as lines like those of the file, after one
 * that names the file. The caller frees it. */
char *tuning_text(const struct tuning *tuning);

/* Replace what is known by such lines. With 'keep' the next save writes them to the file, whatever
 * other processes wrote there; otherwise this process leaves the file to others. Returns -1 and
 * takes none if they were created for another file, that is another GPU model or version of the
 * libraries. */
int tuning_take(struct tuning *tuning, const char *text, int keep, struct error *err);

/* Write the file if anything is new: to a temporary name, synced, renamed, while others wait.
 * Values that other processes wrote meanwhile are kept, even if this one uses another value; if
 * they include everything that is new here, nothing is written. Entries that were taken to keep
 * replace theirs. A value also replaces a record of a trial, a provisional value, and one that
 * existed from the beginning and could not be used. */
int tuning_save(struct tuning *tuning, struct error *err);
void tuning_destroy(struct tuning *tuning);

#endif
