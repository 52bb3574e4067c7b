/* SPDX-License-Identifier: Apache-2.0 */
#include "protobuf.h"

#include <string.h>

static int read_varint(struct protobuf *state, uint64_t *value)
{
    const uint8_t *at = state->at;

    *value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (at == state->end)
            return -1;
        if (shift == 63 && *at > 1)
            return -1;
        *value |= (uint64_t)(*at & 0x7F) << shift;
        if (*at++ < 0x80) {
            state->at = at;
            return 0;
        }
    }
    return -1;
}

int protobuf_next(struct protobuf *state, struct protobuf_field *field)
{
    const uint8_t *begin = state->at;
    uint64_t tag, length = 0;

    if (state->at == state->end)
        return 0;
    memset(field, 0, sizeof(*field));
    if (read_varint(state, &tag) < 0 || tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF)
        goto broken;
    field->number = (uint32_t)(tag >> 3);
    switch (tag & 7) {
    case PROTOBUF_VARINT:
        field->type = PROTOBUF_VARINT;
        if (read_varint(state, &field->value) < 0)
            goto broken;
        return 1;
    case PROTOBUF_FIXED64:
        field->type = PROTOBUF_FIXED64;
        length = 8;
        break;
    case PROTOBUF_FIXED32:
        field->type = PROTOBUF_FIXED32;
        length = 4;
        break;
    case PROTOBUF_BYTES:
        field->type = PROTOBUF_BYTES;
        if (read_varint(state, &length) < 0)
            goto broken;
        break;
    default:
        goto broken;
    }
    if (length > (uint64_t)(state->end - state->at))
        goto broken;
    field->data = state->at;
    field->length = (size_t)length;
    if (field->type != PROTOBUF_BYTES)
        memcpy(&field->value, state->at, (size_t)length);
    state->at += length;
    return 1;
broken:
    state->at = begin;
    return -1;
}
