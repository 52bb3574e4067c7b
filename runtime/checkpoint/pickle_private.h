/* A read of a pickle under way, for the two files that make it. */
#ifndef MEGATRON_PICKLE_PRIVATE_H
#define MEGATRON_PICKLE_PRIVATE_H

#include "pickle.h"

struct values {
    struct pickle_value **list;
    size_t count, room;
};

struct pickle {
    struct chunk *chunks;
    size_t left; /* bytes of the first chunk that are free */
    const struct pickle_value *root;
    struct values persistent;
};

/* A read under way. */
struct machine {
    struct pickle *pickle;
    const unsigned char *bytes;
    size_t size, at;
    struct values stack, memo;
    size_t *marks, mark_count, mark_room;
    size_t copied; /* pairs that became dicts */
    struct error *err;
};

/* A value of the pickle's memory, cleared; NULL with the error set. */
struct pickle_value *pickle_new(struct machine *m, enum pickle_type type);

/* Room for 'count' more behind the 'used' ones of a list. */
int pickle_reserve(struct machine *m, struct pickle_value ***list, size_t used, size_t *room,
                   size_t count);

/* Put a value, if it is one, behind the others. */
int pickle_append(struct machine *m, struct values *values, struct pickle_value *value);

/* The error, with the place. Returns -1. */
int pickle_fail(struct machine *m, const char *what);

/* The newest value of the stack, which it leaves; NULL with the error set. */
struct pickle_value *pickle_pop(struct machine *m);

/* Do what 'op' says; 0: it is unknown, 1, or -1 for an error. */
int pickle_step(struct machine *m, int op);

#endif
