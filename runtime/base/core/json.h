/* SPDX-License-Identifier: Apache-2.0 */
/* JSON, parsed by simdjson behind a C interface. Texts are limited in size (4 GB) and depth (256).
 * This interface parses a whole document into a tree of values; corpus/jsonl.h reads many small
 * texts without a copy. */
#ifndef MEGATRON_JSON_H
#define MEGATRON_JSON_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum json_type {
    JSON_NULL,
    JSON_BOOL,
    JSON_INTEGER, /* a whole number that fits int64_t */
    JSON_REAL,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

/* A document; owns all values and strings read from it. */
struct json;

/* A value within a document: a plain copyable handle, valid as long as the document. */
struct json_value {
    const void *document;
    size_t index;
};

/* Iterates over the elements of an array or the members of an object. */
struct json_iterator {
    struct json_value at, end;
    int is_object;
};

/* Parse 'length' bytes as one JSON text; they are copied. Returns NULL with 'err' set. Always fails
 * if simdjson was missing at configure time. */
struct json *json_read(const char *text, size_t length, struct error *err);

/* The same for a file of at most 'limit' bytes; errors name the file. */
struct json *json_read_file(const char *path, size_t limit, struct error *err);

void json_destroy(struct json *json);

struct json_value json_root(const struct json *json);
enum json_type json_type(struct json_value value);
const char *json_type_name(enum json_type type);

/* Each returns 0 and fills in the result, or -1 if 'value' is of another type. Strings are UTF-8,
 * end with a NUL that is not counted, and may contain others. A JSON_INTEGER is a real number, too.
 */
int json_string(struct json_value value, const char **text, size_t *length);
int json_integer(struct json_value value, int64_t *number);
int json_real(struct json_value value, double *number);
int json_bool(struct json_value value, int *flag);

/* The member 'name' of an object (the first, if there are several). Returns 0, or -1 if
 * 'value' is not an object or has no such member. */
int json_member(struct json_value value, const char *name, struct json_value *member);

/* Number of elements or members; 0 for other types. Linear time. */
size_t json_count(struct json_value value);

/* Start at the first element or member. Returns 0, or -1 if 'value' is neither array nor object. */
int json_iterate(struct json_value value, struct json_iterator *iterator);

/* Fill in 'value' and, for objects, 'name' and 'name_length' (both may be NULL) and advance.
 * Returns 1, or 0 at the end. */
int json_next(struct json_iterator *iterator, const char **name, size_t *name_length,
              struct json_value *value);

#ifdef __cplusplus
}
#endif

#endif
