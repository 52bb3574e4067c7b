/* SPDX-License-Identifier: Apache-2.0 */
#include "members.h"
#include "base/core/xmalloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

char *member_text(struct json_value object, const char *name)
{
    struct json_value value;
    const char *text = "";
    char number[40];
    size_t length;
    int64_t whole;
    double real;
    int flag;

    if (json_member(object, name, &value) < 0)
        return xstrdup("");
    if (json_string(value, &text, &length) == 0)
        return xstrdup(text);
    if (json_integer(value, &whole) == 0)
        snprintf(number, sizeof(number), "%" PRId64, whole);
    else if (json_real(value, &real) == 0)
        snprintf(number, sizeof(number), "%.6g", real);
    else if (json_bool(value, &flag) == 0)
        snprintf(number, sizeof(number), "%s", flag ? "true" : "false");
    else
        number[0] = '\0';
    return xstrdup(number);
}

double member_real(struct json_value object, const char *name)
{
    struct json_value value;
    double number;

    return json_member(object, name, &value) == 0 && json_real(value, &number) == 0 ? number : NAN;
}

int64_t member_integer(struct json_value object, const char *name, int64_t otherwise)
{
    struct json_value value;
    int64_t number;

    return json_member(object, name, &value) == 0 && json_integer(value, &number) == 0 ? number
                                                                                       : otherwise;
}
