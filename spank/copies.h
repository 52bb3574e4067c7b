/* SPDX-License-Identifier: Apache-2.0 */
/* Several copies of the plugin in one process: plugstack.conf names two files. */
#ifndef MEGATRON_COPIES_H
#define MEGATRON_COPIES_H

#include <stdbool.h>
#include <stddef.h>

/* Was another copy loaded before the one that contains 'name', the name of the plugin? Then the
 * path of the first one is in 'first', and that of this copy in 'second'. */
bool copies_find(const char *name, char *first, char *second, size_t size);

#endif
