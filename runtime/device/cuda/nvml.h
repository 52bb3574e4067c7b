/* What the driver's management library (NVML) knows of a GPU that CUDA does not say: memory errors,
 * throttling, links that are down. The library comes with the driver and is opened when asked. */
#ifndef MEGATRON_NVML_H
#define MEGATRON_NVML_H

#include <stddef.h>
#include "error.h"

/* Look at the GPU at PCI address 'bus' ("0000:53:00.0") through 'library' (NULL: the driver's own).
 * Everything that will make training slow or wrong goes to 'text', one line each with the remedy;
 * nothing to say leaves it empty. Returns -1 where the GPU cannot be used at all. A library that is
 * not there or does not find the GPU is no error, but a line, too: nothing was looked at then. One
 * that is not there is the same for all ranks of a node, and the 'first' of them says so. */
int nvml_check(const char *library, const char *bus, int first, char *text, size_t size,
               struct error *err);

#endif
