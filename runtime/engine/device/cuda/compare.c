/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"

#include <math.h>

int fingerprint_take(struct gemm_context *context, const struct output *output,
                     struct fingerprint *fingerprint)
{
    double *numbers = context->workspace;

    kernel_fingerprint(context->stream, output->type, output->count, output->data, numbers,
                       numbers + FINGERPRINT);
    return cudaMemcpyAsync(fingerprint->numbers, numbers, sizeof(fingerprint->numbers),
                           cudaMemcpyDeviceToHost, context->stream) ||
                   cudaGetLastError() || cudaStreamSynchronize(context->stream)
               ? -1
               : 0;
}

int fingerprints_agree(const struct fingerprint *expected, const struct fingerprint *got,
                       double tolerance)
{
    const double *x = expected->numbers, *y = got->numbers, squares = x[FINGERPRINT - 1];

    if (!isfinite(squares))
        return 0;
    for (int k = 0; k < FINGERPRINT - 1; k++)
        if (!(fabs(x[k] - y[k]) <= tolerance * sqrt(squares)))
            return 0;
    return fabs(squares - y[FINGERPRINT - 1]) <= tolerance * squares;
}
