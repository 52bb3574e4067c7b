/* SPDX-License-Identifier: Apache-2.0 */
/* One tensor of a checkpoint, for the exports to all formats. */
#ifndef MEGATRON_EXPORT_TENSOR_H
#define MEGATRON_EXPORT_TENSOR_H

#include "run/checkpoint/index.h"

/* Read parameter 'number' of the whole model, without the padding of a vocabulary, from the
 * checkpoint in 'from'. The caller frees it; NULL with 'err' set. */
float *export_read(const char *from, const struct checkpoint_index *index,
                   const struct parameters *parameters, int number, struct error *err);

/* Convert in place to 'type': a 16-bit number takes less space than its source. A number must not
 * become infinite. */
int export_round(enum device_type type, const char *name, float *values, int64_t count,
                 struct error *err);

#endif
