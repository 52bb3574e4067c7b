/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of CUDA's errors, with what to do about them. In a header, since tests link single
 * files of this folder. */
#ifndef MEGATRON_CUDA_ERROR_H
#define MEGATRON_CUDA_ERROR_H

#include <cuda_runtime_api.h>
#include <stdarg.h>
#include <stdio.h>

#include "lib/error.h"

#define CUDA_CHECK_NODE \
    "; check nvidia-smi and dmesg (Xid) on this node, and exclude the node if the error recurs"

/* What to do about 'status': "; " and a clause. */
static inline const char *cuda_remedy(cudaError_t status)
{
    return status == cudaErrorMemoryAllocation
               ? "; nvidia-smi shows whether other processes use the memory"
               : CUDA_CHECK_NODE;
}

/* The formatted text, ": ", CUDA's text for 'status', and what to do about it. Returns -1. */
__attribute__((format(printf, 3, 4), unused)) static int
cuda_error(struct error *err, cudaError_t status, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return error_set(err, "%s: %s%s", text, cudaGetErrorString(status), cuda_remedy(status));
}

#endif
