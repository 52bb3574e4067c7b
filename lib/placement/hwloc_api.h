/* SPDX-License-Identifier: Apache-2.0 */
/* hwloc, loaded only when needed: srun and login nodes never load it. The headers provide the
 * types, this table the functions. hwloc's inline helpers call functions by name and are not used.
 */
#ifndef MEGATRON_HWLOC_API_H
#define MEGATRON_HWLOC_API_H

#include <hwloc.h>
#include "lib/error.h"

/* X(result, name without hwloc_, parameters) */
#define HWLOC_FUNCTIONS(X)                                                              \
    X(unsigned, get_api_version, (void))                                                \
    X(int, topology_init, (hwloc_topology_t *))                                         \
    X(void, topology_destroy, (hwloc_topology_t))                                       \
    X(int, topology_load, (hwloc_topology_t))                                           \
    X(int, topology_set_flags, (hwloc_topology_t, unsigned long))                       \
    X(int, topology_set_xmlbuffer, (hwloc_topology_t, const char *, int))               \
    X(int, topology_set_all_types_filter, (hwloc_topology_t, enum hwloc_type_filter_e)) \
    X(int, topology_set_type_filter,                                                    \
      (hwloc_topology_t, hwloc_obj_type_t, enum hwloc_type_filter_e))                   \
    X(int, topology_set_components, (hwloc_topology_t, unsigned long, const char *))    \
    X(hwloc_obj_t, get_obj_by_depth, (hwloc_topology_t, int, unsigned))                 \
    X(int, bitmap_first, (hwloc_const_bitmap_t))

struct hwloc_api {
#define X(result, name, parameters) result(*name) parameters;
    HWLOC_FUNCTIONS(X)
#undef X
    void *handle;
};

#define HWLOC_LIBRARY "libhwloc.so.15" /* any 2.x */

/* Open 'library', which is HWLOC_LIBRARY except in tests. Returns 0 or -1. */
int hwloc_api_open(struct hwloc_api *api, const char *library, struct error *err);
void hwloc_api_close(struct hwloc_api *api);

/* Make hwloc's functions visible to its plugins, which cannot be loaded otherwise. */
void hwloc_api_share(struct hwloc_api *api);

#endif
