/* SPDX-License-Identifier: Apache-2.0 */
/* The name of a process in a directory that nodes share, and whether that process still runs. Files
 * there contain the name, or have it in their own names. */
#ifndef MEGATRON_OWNER_H
#define MEGATRON_OWNER_H

#include <stddef.h>

enum { OWNER_SIZE = 128 };

enum owner_fate {
    OWNER_UNKNOWN,   /* the text does not begin with an owner's name */
    OWNER_ELSEWHERE, /* on another host */
    OWNER_BEFORE,    /* on this host, but from an earlier boot or another PID namespace, or
                        unknown */
    OWNER_GONE,      /* a process of this boot and PID namespace that has ended */
    OWNER_LIVES,
};

/* Name this process: HOST,PID,PLACE,NUMBER. PLACE identifies the boot and the PID namespace, within
 * which a PID is unique. NUMBER is random at each call, so the name identifies one piece of work.
 * The name can be used in a file name. */
void owner_name(char owner[OWNER_SIZE]);

/* The length of the owner's name at the start of 'text', exactly as owner_name writes it; 0 if
 * there is none. */
size_t owner_length(const char *text);

/* The state of the owner whose name is at the start of 'text'. */
enum owner_fate owner_fate(const char *text);

#endif
