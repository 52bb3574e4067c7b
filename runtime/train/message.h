/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of protocol buffers, field by field, and the checksums of the files that contain them.
 * What does not fit is left out; messages here are small. */
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

/* A CRC of 32 bits: the table of a polynomial with its bits reversed, and the checksum of 'data'
 * appended to what has the checksum 'before' (0: nothing). */
#define CRC_ZLIB       0xEDB88320u
#define CRC_CASTAGNOLI 0x82F63B78u

static inline void crc_make_table(uint32_t table[256], uint32_t polynomial)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;

        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? c >> 1 ^ polynomial : c >> 1;
        table[i] = c;
    }
}

static inline uint32_t crc_of(const uint32_t table[256], uint32_t before, const unsigned char *data,
                              size_t size)
{
    uint32_t c = before ^ 0xFFFFFFFFu;

    for (size_t i = 0; i < size; i++)
        c = table[(c ^ data[i]) & 0xFF] ^ c >> 8;
    return c ^ 0xFFFFFFFFu;
}

#endif
