/* SPDX-License-Identifier: Apache-2.0 */
/* The name of a process in a directory that nodes share, and whether the process behind such a name
 * still runs. Files there carry the name or contain it. */
#ifndef MEGATRON_OWNER_H
#define MEGATRON_OWNER_H

enum { OWNER_SIZE = 128 };

enum owner_fate {
    OWNER_UNKNOWN,   /* the text does not begin with an owner's name */
    OWNER_ELSEWHERE, /* on another host */
    OWNER_BEFORE,    /* on this host, but from an earlier boot or another PID namespace, or that
                        cannot be determined */
    OWNER_GONE,      /* a process of this boot and PID namespace that has ended */
    OWNER_LIVES,
};

/* Name this process: HOST,PID,PLACE,NUMBER. PLACE stands for the boot and the PID namespace, in
 * which a PID means something. NUMBER is random at each call, so the name identifies one piece of
 * work. The whole name can be part of a file name. */
void owner_name(char owner[OWNER_SIZE]);

/* What has become of the owner whose name begins 'text'? */
enum owner_fate owner_fate(const char *text);

#endif
