/* Who is at work in a directory that nodes share: a name that files there carry or hold, and what
 * can be told of such a one from here. */
#ifndef MEGATRON_OWNER_H
#define MEGATRON_OWNER_H

enum { OWNER_SIZE = 128 };

enum owner_fate {
    OWNER_UNKNOWN,   /* the text names nobody */
    OWNER_ELSEWHERE, /* of another host */
    OWNER_BEFORE,    /* of this host, before it was booted, in another pid namespace,
                        or where that cannot be told */
    OWNER_GONE,      /* a process of this very place that has ended */
    OWNER_LIVES,
};

/* Name this process: HOST,PID,PLACE,NUMBER. The number is another one at each call, so that the
 * name is that of one piece of work; all of it can be part of a file's name. */
void owner_name(char owner[OWNER_SIZE]);

/* What has become of the owner at the beginning of 'text'? */
enum owner_fate owner_fate(const char *text);

#endif
