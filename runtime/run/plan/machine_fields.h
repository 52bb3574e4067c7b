/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a machine file: for its reader and its writer. */
#ifndef MEGATRON_MACHINE_FIELDS_H
#define MEGATRON_MACHINE_FIELDS_H

#include "machine.h"
#include "base/core/gib.h"

/* A number of a JSON object and where it goes. 'unit' converts it to bytes, seconds or a share. */
struct field {
    const char *name;
    size_t offset;
    double unit, min, max; /* limits in the file's own unit */
    int required;
};

/* No table has more rows, with the last one, whose name is NULL. */
enum { MACHINE_FIELDS = 16 };

extern const struct field machine_rate_fields[]; /* of struct machine_rates */
extern const struct field machine_gpu_fields[];  /* of struct machine_gpu; at most MACHINE_FIELDS */
extern const struct field machine_step_fields[]; /* of struct machine_step */
extern const struct field machine_node_fields[]; /* of struct machine */
extern const struct field machine_memory_fields[]; /* of struct machine_memory */
extern const struct field machine_limit_fields[];  /* of struct machine_limits */

#endif
