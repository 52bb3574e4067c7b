/* Numbers from text, all of the text or an error; nothing is clipped, skipped or guessed. */
#ifndef MEGATRON_PARSE_H
#define MEGATRON_PARSE_H

#include <stddef.h>
#include <stdint.h>
#include "error.h"

/* Read a decimal whole number in [min, max] from 'text' into '*value'. 'what' names it in the
 * error ("--megatron-tp"). Returns 0, or -1 with 'err' set. */
int parse_int64(const char *what, const char *text, int64_t min, int64_t max, int64_t *value,
                struct error *err);

/* Read a finite decimal number (also 1e-4, .01) into '*value'. Returns 0 or -1. */
int parse_double(const char *what, const char *text, double *value, struct error *err);

/* Read a size in bytes in [min, max]: 512, 128M, 1.5G, 5GB, 64MiB. A k, M, G, T or P alone, in
 * either case, counts by 'kilo', which is 1000 or 1024; with B behind it by 1000, with iB by 1024.
 * Returns 0 or -1. */
int parse_size(const char *what, const char *text, int kilo, int64_t min, int64_t max,
               int64_t *value, struct error *err);

/* Multiply two sizes. Returns 0, or -1 if the product does not fit; '*product' is then unchanged.
 */
int size_multiply(size_t a, size_t b, size_t *product);

#endif
