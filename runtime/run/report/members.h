/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a JSON object that may be missing. */
#ifndef MEGATRON_MEMBERS_H
#define MEGATRON_MEMBERS_H

#include <stdint.h>
#include "base/core/json.h"

/* A string, a number or a truth value as text, "" if it is missing or anything else. The caller
 * frees it. */
char *member_text(struct json_value object, const char *name);

/* A number, NAN if it is missing or not a number. */
double member_real(struct json_value object, const char *name);

/* A whole number, 'otherwise' if it is missing or not one. */
int64_t member_integer(struct json_value object, const char *name, int64_t otherwise);

#endif
