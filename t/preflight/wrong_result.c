/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into one rank: a processor whose logarithms are wrong by their lowest bit. Attention
 * takes one per row and head on every CPU; which code multiplies matrices depends on the CPU. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

float logf(float x)
{
    float (*real)(float), result;
    void *symbol = dlsym(RTLD_NEXT, "logf");
    uint32_t bits;

    memcpy(&real, &symbol, sizeof(real));
    result = real(x);
    memcpy(&bits, &result, sizeof(bits));
    bits ^= 1;
    memcpy(&result, &bits, sizeof(result));
    return result;
}
