/* SPDX-License-Identifier: Apache-2.0 */
#include "fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int is_real(const struct field *field)
{
    return field->type == FIELD_FLOAT || field->type == FIELD_DOUBLE;
}

static int64_t integer_of(const struct field *field, const void *values)
{
    const char *at = (const char *)values + field->offset;

    switch (field->type) {
    case FIELD_INT:
        return *(const int *)at;
    case FIELD_INT32:
        return *(const int32_t *)at;
    default:
        return *(const int64_t *)at;
    }
}

static double real_of(const struct field *field, const void *values)
{
    const char *at = (const char *)values + field->offset;

    return field->type == FIELD_FLOAT ? (double)*(const float *)at : *(const double *)at;
}

/* Use the fewest digits that round-trip, but not fewer than people would write. */
static void print_real(const struct field *field, double real, char *text, size_t size)
{
    int single = field->type == FIELD_FLOAT;

    for (int digits = 6; digits <= (single ? 9 : 17); digits++) {
        snprintf(text, size, "%.*g", digits, real);
        if (single ? (float)strtod(text, NULL) == (float)real : strtod(text, NULL) == real)
            return;
    }
}

static void print_value(const struct field *field, const void *values, char *text, size_t size)
{
    if (!is_real(field))
        snprintf(text, size, "%" PRId64, integer_of(field, values));
    else if (!isfinite(real_of(field, values)))
        snprintf(text, size, "null");
    else
        print_real(field, real_of(field, values), text, size);
}

void fields_write(const struct field *table, const void *values, FILE *stream)
{
    char text[64];

    for (const struct field *field = table; field->name; field++) {
        print_value(field, values, text, sizeof(text));
        fprintf(stream, "%s\"%s\": %s", field == table ? "{" : ", ", field->name, text);
    }
    fprintf(stream, "}");
}

static int read_value(const struct field *field, struct json_value value, void *values)
{
    char *at = (char *)values + field->offset;
    int64_t integer = 0;
    double real = NAN;

    if (is_real(field)) {
        if (json_real(value, &real) < 0 && json_type(value) != JSON_NULL)
            return -1;
        if (field->type == FIELD_FLOAT)
            *(float *)at = (float)real;
        else
            *(double *)at = real;
        return 0;
    }
    if (json_integer(value, &integer) < 0 ||
        (field->type != FIELD_INT64 && (integer < INT32_MIN || integer > INT32_MAX)))
        return -1;
    if (field->type == FIELD_INT)
        *(int *)at = (int)integer;
    else if (field->type == FIELD_INT32)
        *(int32_t *)at = (int32_t)integer;
    else
        *(int64_t *)at = integer;
    return 0;
}

int fields_read(const struct field *table, struct json_value object, void *values,
                struct error *err)
{
    struct json_value value;

    for (const struct field *field = table; field->name; field++)
        if (json_member(object, field->name, &value) < 0 ? !field->optional
                                                         : read_value(field, value, values) < 0)
            return error_set(err, "%s is missing or not a number", field->name);
    return 0;
}

int fields_compare(const struct field *table, const void *theirs, const void *ours, char *text,
                   size_t size)
{
    size_t used = 0;
    int count = 0;

    text[0] = '\0';
    for (const struct field *field = table; field->name; field++) {
        char a[64], b[64];
        int length;

        print_value(field, theirs, a, sizeof(a));
        print_value(field, ours, b, sizeof(b));
        if (field->loose || strcmp(a, b) == 0)
            continue;
        length = snprintf(text + used, size - used, "%s%s (%s, here %s)", count ? ", " : "",
                          field->name, a, b);
        used += length > 0 && (size_t)length < size - used ? (size_t)length : 0;
        count++;
    }
    return count;
}
