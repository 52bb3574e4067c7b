/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of a protocol buffer message, one after the other. Nothing is read beyond its end. */
#ifndef MEGATRON_PROTOBUF_H
#define MEGATRON_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

struct protobuf {
    const uint8_t *start, *at, *end;
};

struct protobuf_field {
    uint32_t number;
    enum {
        PROTOBUF_VARINT = 0,
        PROTOBUF_FIXED64 = 1,
        PROTOBUF_BYTES = 2,
        PROTOBUF_FIXED32 = 5
    } type;
    uint64_t value; /* of a varint or fixed field */
    const uint8_t *data;
    size_t length; /* of bytes */
};

static inline struct protobuf protobuf_open(const void *data, size_t length)
{
    return (struct protobuf){data, data, (const uint8_t *)data + length};
}

/* Read the next field. Returns 1, 0 at the end of the message, or -1 where it is broken (state->at
 * is then the place). */
int protobuf_next(struct protobuf *state, struct protobuf_field *field);

#endif
