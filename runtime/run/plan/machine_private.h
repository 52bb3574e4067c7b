/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that were read (machine.c) and among which one is found (machine_find.c). */
#ifndef MEGATRON_MACHINE_PRIVATE_H
#define MEGATRON_MACHINE_PRIVATE_H

#include "machine.h"

struct machine_list {
    struct machine *items;
    size_t count, room;
};

struct machines {
    struct machine_list with_gpus, bare;
};

#endif
