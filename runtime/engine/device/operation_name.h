/* SPDX-License-Identifier: Apache-2.0 */
/* The names of operations, for profilers. */
#ifndef MEGATRON_OPERATION_NAME_H
#define MEGATRON_OPERATION_NAME_H

#include "operation.h"

static inline const char *operation_name(enum operation_kind kind)
{
    static const char *const names[OPERATION_COUNT] = {
        [OPERATION_LINEAR_FORWARD] = "linear forward",
        [OPERATION_LINEAR_DGRAD] = "linear dgrad",
        [OPERATION_LINEAR_WGRAD] = "linear wgrad",
        [OPERATION_ACTIVATION] = "activation",
        [OPERATION_RESIDUAL_NORM] = "residual and norm",
        [OPERATION_RESIDUAL_NORM_BACKWARD] = "residual and norm backward",
        [OPERATION_ATTENTION] = "attention",
        [OPERATION_ATTENTION_BACKWARD] = "attention backward",
        [OPERATION_ROPE] = "rope",
        [OPERATION_SWIGLU] = "swiglu",
        [OPERATION_SWIGLU_BACKWARD] = "swiglu backward",
        [OPERATION_EMBEDDING] = "embedding",
        [OPERATION_EMBEDDING_BACKWARD] = "embedding backward",
        [OPERATION_CROSS_ENTROPY_PARTIAL] = "cross entropy",
        [OPERATION_CROSS_ENTROPY_FINISH] = "cross entropy finish",
        [OPERATION_ADAM] = "optimizer",
        [OPERATION_SQUARE_SUM] = "sum of squares",
        [OPERATION_STEP] = "step",
        [OPERATION_CONVERT] = "convert",
        [OPERATION_ADD] = "add",
        [OPERATION_GATHER_ROWS] = "gather rows",
        [OPERATION_NORMAL] = "random numbers",
        [OPERATION_FILL] = "fill",
        [OPERATION_QUANTIZE] = "cast to fp8",
        [OPERATION_SCALING] = "fp8 scales",
        [OPERATION_WEIGHT_SCALES] = "fp8 scales",
        [OPERATION_QUANTIZE_SQUARES] = "cast to fp8",
        [OPERATION_MUON] = "optimizer",
    };

    return kind < OPERATION_COUNT && names[kind] ? names[kind] : "operation";
}

#endif
