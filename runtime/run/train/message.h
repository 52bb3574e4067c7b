/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of protocol buffers, field by field. Messages are small here; what exceeds the buffer is
 * dropped. */
#ifndef MEGATRON_MESSAGE_H
#define MEGATRON_MESSAGE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct message {
    unsigned char data[8192];
    size_t size;
};

static inline void put_byte(struct message *m, unsigned value)
{
    if (m->size < sizeof(m->data))
        m->data[m->size++] = (unsigned char)value;
}

static inline void put_varint(struct message *m, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        put_byte(m, (unsigned)(value & 127) | 128);
    put_byte(m, (unsigned)value);
}

static inline void put_fixed(struct message *m, uint64_t bits, int count)
{
    for (int i = 0; i < count; i++)
        put_byte(m, (unsigned)(bits >> (8 * i)) & 255);
}

/* Field 'number' with an integer, with bytes, and with a double. */
static inline void put_number(struct message *m, unsigned number, uint64_t value)
{
    put_varint(m, (uint64_t)number << 3);
    put_varint(m, value);
}

static inline void put_bytes(struct message *m, unsigned number, const void *data, size_t size)
{
    put_varint(m, number << 3 | 2);
    put_varint(m, size);
    for (size_t i = 0; i < size; i++)
        put_byte(m, ((const unsigned char *)data)[i]);
}

static inline void put_text(struct message *m, unsigned number, const char *text)
{
    put_bytes(m, number, text, strlen(text));
}

static inline void put_message(struct message *m, unsigned number, const struct message *part)
{
    put_bytes(m, number, part->data, part->size);
}

static inline void put_double(struct message *m, unsigned number, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    put_varint(m, number << 3 | 1);
    put_fixed(m, bits, 8);
}

#endif
