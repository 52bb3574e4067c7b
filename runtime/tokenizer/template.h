/* SPDX-License-Identifier: Apache-2.0 */
/* The post-processor of a tokenizer.json; for the files of this folder only. */
#ifndef MEGATRON_TEMPLATE_H
#define MEGATRON_TEMPLATE_H

#include <stddef.h>
#include <stdint.h>
#include "error.h"
#include "json.h"

/* Ids that stand before or behind each text. */
enum { AROUND_IDS = 16 };
struct around {
    uint32_t ids[AROUND_IDS];
    size_t count;
};

/* Add what a post-processor puts around a single text; ids are below 'limit'. Returns 0, or -1 and
 * the component's name in 'err' where it is not known. */
int template_read(struct json_value component, int64_t limit, struct around *before,
                  struct around *after, struct error *err);

#endif
