/* SPDX-License-Identifier: Apache-2.0 */
/* Python pickles of protocols 2 to 5, read without executing anything: a value that would be
 * created by a call is kept as a record of the callable and its arguments. Values live as long as
 * their pickle, and strings as long as the bytes it was read from. Memory use is limited to a fixed
 * multiple of these bytes. Values may refer to each other in cycles: look up values by name, and
 * never walk them recursively without a limit. */
#ifndef MEGATRON_PICKLE_H
#define MEGATRON_PICKLE_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"

enum pickle_type {
    PICKLE_NONE,
    PICKLE_BOOL,    /* 'integer' is 0 or 1 */
    PICKLE_INTEGER, /* fits 64 bits */
    PICKLE_BIG,     /* an integer that does not fit: its bytes, little-endian, in 'text' */
    PICKLE_REAL,
    PICKLE_STRING,     /* characters or bytes, without a terminating NUL */
    PICKLE_LIST,       /* lists, tuples and sets */
    PICKLE_DICT,       /* 'items' holds alternating keys and values */
    PICKLE_GLOBAL,     /* a name: 'text' is the module, 'name' the name in it */
    PICKLE_OBJECT,     /* the result of calling 'callable' with 'arguments', with 'state' */
    PICKLE_PERSISTENT, /* something outside the pickle, identified by 'arguments' */
};

struct pickle_text {
    const char *at;
    size_t length;
};

struct pickle_value {
    enum pickle_type type;
    union {
        int64_t integer;
        double real;
        struct {
            struct pickle_text text, name;
        };
        struct {
            struct pickle_value **items;
            size_t count, room;
        };
        struct {
            const struct pickle_value *callable, *arguments, *state;
        };
    };
};

struct pickle;

/* Read the pickle that starts at 'bytes', of at most 'size' bytes; 'used' is its length. Returns
 * NULL with 'err' set. Caller must destroy. */
struct pickle *pickle_read(const void *bytes, size_t size, size_t *used, struct error *err);
void pickle_destroy(struct pickle *pickle);

const struct pickle_value *pickle_root(const struct pickle *pickle);

/* The persistent values in the order of the pickle; NULL after the last. */
const struct pickle_value *pickle_persistent(const struct pickle *pickle, size_t index);

/* The value of a key of a dict, or of an attribute of an object; NULL if there is none. */
const struct pickle_value *pickle_member(const struct pickle_value *value, const char *name);

/* Element of a list, or NULL. */
const struct pickle_value *pickle_item(const struct pickle_value *value, size_t index);

/* Is it this string? This name of this module? */
int pickle_is_text(const struct pickle_value *value, const char *text);
int pickle_is_global(const struct pickle_value *value, const char *module, const char *name);

/* A value for a message: a string (a long one is cut) or a number; "" for anything else, also NULL.
 */
void pickle_show(const struct pickle_value *value, char text[64]);

#endif
