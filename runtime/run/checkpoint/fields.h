/* SPDX-License-Identifier: Apache-2.0 */
/* Structs as JSON objects, by a table with one row per member. */
#ifndef MEGATRON_FIELDS_H
#define MEGATRON_FIELDS_H

#include <stddef.h>
#include <stdio.h>
#include "lib/error.h"
#include "base/core/json.h"

enum field_type { FIELD_INT, FIELD_INT32, FIELD_INT64, FIELD_FLOAT, FIELD_DOUBLE };

/* The last row has no name. */
struct field {
    const char *name;
    enum field_type type;
    size_t offset;
    int loose;    /* fields_compare ignores it */
    int optional; /* fields_read leaves it as it is if the object does not have it */
};

/* A row for a member of 'values': FIELD(struct layout, "tp", tp, FIELD_INT64). */
#define FIELD(values, text, member, kind)                                  \
    {                                                                      \
        .name = (text), .type = (kind), .offset = offsetof(values, member) \
    }

/* Numbers are restored bit-identically; inf and NaN are written as null and read as NaN. */
void fields_write(const struct field *table, const void *values, FILE *stream);
int fields_read(const struct field *table, struct json_value object, void *values,
                struct error *err);

/* Describe the members that differ in 'text', as "name (a, here b)"; returns their number. */
int fields_compare(const struct field *table, const void *theirs, const void *ours, char *text,
                   size_t size);

#endif
