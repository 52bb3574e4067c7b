/* SPDX-License-Identifier: Apache-2.0 */
/* Parse numbers strictly: all of the text, or an error. Nothing is clipped, skipped or guessed. And
 * the opposite: lists in text. */
#ifndef MEGATRON_PARSE_H
#define MEGATRON_PARSE_H

#include <stddef.h>
#include <stdint.h>
#include "error.h"

/* Parse a decimal whole number in [min, max] from 'text' into '*value'. 'what' names it in the
 * error ("--megatron-tp"). Returns 0, or -1 with 'err' set. */
int parse_int64(const char *what, const char *text, int64_t min, int64_t max, int64_t *value,
                struct error *err);

/* Parse a finite decimal number (also 1e-4, .01) into '*value'. Returns 0 or -1. */
int parse_double(const char *what, const char *text, double *value, struct error *err);

/* Parse a size in bytes in [min, max]: 512, 128M, 1.5G, 5GB, 64MiB. A suffix k, M, G, T or P in
 * either case is a power of 'kilo', which is 1000 or 1024; with B appended it is a power of 1000,
 * with iB of 1024. Returns 0 or -1. */
int parse_size(const char *what, const char *text, int kilo, int64_t min, int64_t max,
               int64_t *value, struct error *err);

/* Add a formatted item to a list such as "0,1,5", which has room for 'size' bytes. An item that
 * does not fit is dropped. */
void list_text_add(char *list, size_t size, const char *separator, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
