/* SPDX-License-Identifier: Apache-2.0 */
#include "pickle_writer.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>
#include <string.h>

static void put(struct pickle_writer *w, const void *bytes, size_t size)
{
    if (w->size + size > w->room) {
        w->room = 2 * w->room + size + 256;
        w->bytes = xrealloc(w->bytes, w->room, 1);
    }
    if (size > 0)
        memcpy(w->bytes + w->size, bytes, size);
    w->size += size;
}

static void put_little(struct pickle_writer *w, uint64_t number, int size)
{
    unsigned char bytes[8];

    for (int i = 0; i < size; i++)
        bytes[i] = (unsigned char)(number >> (8 * i));
    put(w, bytes, (size_t)size);
}

void pickle_begin(struct pickle_writer *w)
{
    put(w, "\x80\x02", 2);
}

void pickle_end(struct pickle_writer *w)
{
    put(w, ".", 1);
}

void pickle_writer_clear(struct pickle_writer *w)
{
    free(w->bytes);
    memset(w, 0, sizeof(*w));
}

void pickle_put(struct pickle_writer *w, const char *operations)
{
    put(w, operations, strlen(operations));
}

void pickle_append_bytes(struct pickle_writer *w, const char *bytes, size_t size)
{
    put(w, bytes, size);
}

void pickle_put_name(struct pickle_writer *w, const char *name)
{
    if (!name)
        return;
    put(w, "X", 1);
    put_little(w, strlen(name), 4);
    put(w, name, strlen(name));
}

void pickle_put_text(struct pickle_writer *w, const char *name, const char *text)
{
    pickle_put_name(w, name);
    if (text)
        pickle_put_name(w, text);
    else
        put(w, "N", 1);
}

void pickle_put_integer(struct pickle_writer *w, const char *name, int64_t number)
{
    bool small = number >= 0 && number < 256, middle = number >= INT32_MIN && number <= INT32_MAX;

    pickle_put_name(w, name);
    put(w, small ? "K" : middle ? "J" : "\x8a\x08", small || middle ? 1 : 2);
    put_little(w, (uint64_t)number, small ? 1 : middle ? 4 : 8);
}

void pickle_put_real(struct pickle_writer *w, const char *name, double number)
{
    unsigned char bytes[8];
    uint64_t bits;

    pickle_put_name(w, name);
    memcpy(&bits, &number, sizeof(bits));
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(bits >> (56 - 8 * i));
    put(w, "G", 1);
    put(w, bytes, sizeof(bytes));
}

void pickle_put_bool(struct pickle_writer *w, const char *name, bool value)
{
    pickle_put_name(w, name);
    put(w, value ? "\x88" : "\x89", 1);
}

void pickle_put_global(struct pickle_writer *w, const char *module, const char *name)
{
    put(w, "c", 1);
    put(w, module, strlen(module));
    put(w, "\n", 1);
    put(w, name, strlen(name));
    put(w, "\n", 1);
}

void pickle_put_tuple(struct pickle_writer *w, const int64_t *numbers, int count)
{
    put(w, "(", 1);
    for (int i = 0; i < count; i++)
        pickle_put_integer(w, NULL, numbers[i]);
    put(w, "t", 1);
}

void pickle_begin_dict(struct pickle_writer *w, const char *name)
{
    pickle_put_name(w, name);
    put(w, "}(", 2);
}

void pickle_end_dict(struct pickle_writer *w)
{
    put(w, "u", 1);
}

void pickle_begin_object(struct pickle_writer *w, const char *name, const char *module,
                         const char *class)
{
    pickle_put_name(w, name);
    pickle_put_global(w, module, class);
    put(w, ")\x81}(", 4);
}

void pickle_end_object(struct pickle_writer *w)
{
    put(w, "ub", 2);
}
