/* SPDX-License-Identifier: Apache-2.0 */
#include "convert.h"
#include "base/core/half.h"
#include "run/checkpoint/reshard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int export_round(enum device_type type, const char *name, float *values, int64_t count,
                 struct error *err)
{
    uint16_t *out = (uint16_t *)(void *)values;
    int bfloat = type == TYPE_BF16;

    for (int64_t i = 0; i < count && type != TYPE_FP32; i++) {
        uint16_t half = bfloat ? float_to_bfloat(values[i]) : float_to_half(values[i]);

        if (isinf(bfloat ? bfloat_to_float(half) : half_to_float(half)) && !isinf(values[i])) {
            error_set_code(err, ERROR_USAGE,
                           "tensor %s contains %g, which overflows %s; export it as %s", name,
                           (double)values[i], bfloat ? "bf16" : "fp16 (maximum 65504)",
                           bfloat ? "fp32" : "bf16 or fp32");
            return error_append(err, "; choose the type with --dtype");
        }
        memcpy(&out[i], &half, sizeof(half));
    }
    return 0;
}

float *export_read(const char *from, const struct checkpoint_index *index,
                   const struct parameters *p, int number, struct error *err)
{
    const struct parameter *q = &p->list[number];
    struct piece piece = {number, 0, q->true_rows * q->cols, 0};
    struct pieces pieces = {&piece, 1, piece.count};
    float *values = calloc((size_t)piece.count + 1, sizeof(*values));

    if (!values) {
        error_set(err, "out of memory");
        return NULL;
    }
    if (reshard_read(from, index, p, &pieces, &values, 1, err) == 0)
        return values;
    free(values);
    return NULL;
}
