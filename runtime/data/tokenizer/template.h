/* SPDX-License-Identifier: Apache-2.0 */
/* The post-processor of a tokenizer.json; private to this folder. */
#ifndef MEGATRON_TEMPLATE_H
#define MEGATRON_TEMPLATE_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
#include "base/core/json.h"
#include "vocabulary.h"

/* Ids before or after each text. */
enum { AROUND_IDS = 16 };
struct around {
    uint32_t ids[AROUND_IDS];
    size_t count;
};

/* Add what a post-processor adds around a single text; their ids must be in 'vocabulary'. Returns
 * 0, or -1 with the component's name in 'err' if it is unknown. */
int template_read(struct json_value component, const struct vocabulary *vocabulary,
                  struct around *before, struct around *after, struct error *err);

#endif
