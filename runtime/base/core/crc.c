/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "crc.h"

#ifdef HAVE_ZLIB
#include <zlib.h>
#endif

/* Four bits at a time; 'table' has what the four lowest bits become. */
static uint32_t step_by_nibbles(const uint32_t table[16], uint32_t before, const void *data,
                                size_t size)
{
    const unsigned char *byte = data;
    uint32_t c = ~before;

    for (size_t i = 0; i < size; i++) {
        c ^= byte[i];
        c = table[c & 15] ^ c >> 4;
        c = table[c & 15] ^ c >> 4;
    }
    return ~c;
}

uint32_t crc32_of(uint32_t before, const void *data, size_t size)
{
#ifdef HAVE_ZLIB
    return size == 0 ? before : (uint32_t)crc32_z(before, data, size);
#else
    static const uint32_t table[16] = {0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC,
                                       0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
                                       0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
                                       0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};

    return step_by_nibbles(table, before, data, size);
#endif
}

uint32_t crc32c_of(uint32_t before, const void *data, size_t size)
{
    static const uint32_t table[16] = {0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1,
                                       0x417B1DBC, 0x5125DAD3, 0x61C69362, 0x7198540D,
                                       0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9,
                                       0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75};

    return step_by_nibbles(table, before, data, size);
}
