/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver's management library (NVML) reports about a GPU beyond CUDA: memory errors,
 * throttling, links that are down. The library comes with the driver and is opened on demand. */
#ifndef MEGATRON_NVML_H
#define MEGATRON_NVML_H

#include <stddef.h>
#include "lib/error.h"

/* Check the GPU at PCI address 'bus' ("0000:53:00.0") with 'library' (NULL: the driver's own).
 * Everything that will make training slow or wrong is written to 'text', one line each with the
 * remedy; no problems leave it empty. Returns -1 if the GPU cannot be used at all. A library that
 * is missing or does not find the GPU is not an error; a line reports that nothing was checked. A
 * missing library is the same for all ranks of a node, so only the 'first' of them reports it. */
int nvml_check(const char *library, const char *bus, int first, char *text, size_t size,
               struct error *err);

#endif
