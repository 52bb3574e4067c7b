/* SPDX-License-Identifier: Apache-2.0 */
/* Pickles of protocol 2, written piece by piece, as Python would read them: a value is followed by
 * what is made of it. */
#ifndef MEGATRON_PICKLE_WRITER_H
#define MEGATRON_PICKLE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pickle_writer {
    char *bytes;
    size_t size, room;
};

void pickle_begin(struct pickle_writer *writer);
void pickle_end(struct pickle_writer *writer);
void pickle_writer_clear(struct pickle_writer *writer);

/* Append operations without arguments, one per character. */
void pickle_put(struct pickle_writer *writer, const char *operations);

/* Append operations with their arguments. */
void pickle_append_bytes(struct pickle_writer *writer, const char *bytes, size_t size);

/* Append a value; in a dict, or in the state of an object, after its 'name', otherwise NULL. A text
 * that is NULL is None. */
void pickle_put_text(struct pickle_writer *writer, const char *name, const char *text);
void pickle_put_integer(struct pickle_writer *writer, const char *name, int64_t number);
void pickle_put_real(struct pickle_writer *writer, const char *name, double number);
void pickle_put_bool(struct pickle_writer *writer, const char *name, bool value);

/* The name of a value that is put piece by piece; NULL: it has none. */
void pickle_put_name(struct pickle_writer *writer, const char *name);
void pickle_put_global(struct pickle_writer *writer, const char *module, const char *name);

/* A tuple of integers. */
void pickle_put_tuple(struct pickle_writer *writer, const int64_t *numbers, int count);

/* A dict, or the state of a new object of a class: begin, then named values, then end. */
void pickle_begin_dict(struct pickle_writer *writer, const char *name);
void pickle_end_dict(struct pickle_writer *writer);
void pickle_begin_object(struct pickle_writer *writer, const char *name, const char *module,
                         const char *class);
void pickle_end_object(struct pickle_writer *writer);

#endif
