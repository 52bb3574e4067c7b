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

/* Multiply two sizes. Returns 0, or -1 if the product does not fit; '*product' is then unchanged.
 */
int size_multiply(size_t a, size_t b, size_t *product);

#endif
