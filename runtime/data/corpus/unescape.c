/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "unescape.h"

#include <stdint.h>
#include <string.h>

/* The meaning of a letter after a backslash; 0: left to the library. */
static const char letters[256] = {
    ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
    ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
};

/* The mask of backslashes among 64 bytes. */
#if defined(__aarch64__)
#include <arm_neon.h>

static inline uint64_t find_backslashes(const char *bytes)
{
    static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8_t *at = (const uint8_t *)bytes;
    uint8x16_t bits = vld1q_u8(weights), wanted = vdupq_n_u8('\\');
    uint8x16_t a = vandq_u8(vceqq_u8(vld1q_u8(at), wanted), bits);
    uint8x16_t b = vandq_u8(vceqq_u8(vld1q_u8(at + 16), wanted), bits);
    uint8x16_t c = vandq_u8(vceqq_u8(vld1q_u8(at + 32), wanted), bits);
    uint8x16_t d = vandq_u8(vceqq_u8(vld1q_u8(at + 48), wanted), bits);

    a = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
    a = vpaddq_u8(a, a);
    return vgetq_lane_u64(vreinterpretq_u64_u8(a), 0);
}
#elif defined(__SSE2__)
#include <emmintrin.h>

static inline uint64_t find_sixteen(const char *bytes)
{
    __m128i found =
        _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)bytes), _mm_set1_epi8('\\'));

    return (uint64_t)(uint32_t)_mm_movemask_epi8(found);
}

static inline uint64_t find_backslashes(const char *bytes)
{
    return find_sixteen(bytes) | find_sixteen(bytes + 16) << 16 | find_sixteen(bytes + 32) << 32 |
           find_sixteen(bytes + 48) << 48;
}
#else
static inline uint64_t find_backslashes(const char *bytes)
{
    uint64_t found = 0;

    for (int i = 0; i < 64; i++)
        found |= (uint64_t)(bytes[i] == '\\') << i;
    return found;
}
#endif

size_t unescape(const char *from, size_t size, char *to, size_t *taken)
{
    char *begin = to;
    size_t at = 0; /* everything before this is copied */

    for (size_t block = 0; block < size; block += 64) {
        uint64_t found = find_backslashes(from + block);

        if (size - block < 64)
            found &= (UINT64_C(1) << (size - block)) - 1;
        /* The letter of an escape that began in the previous block may be a backslash. */
        if (at > block)
            found &= ~UINT64_C(1);
        while (found) {
            size_t place = block + (size_t)__builtin_ctzll(found);
            char letter = place + 1 < size ? letters[(unsigned char)from[place + 1]] : 0;

            /* Usually too much, but faster than computing the exact size. */
            memcpy(to, from + at, 64);
            to += place - at;
            if (!letter) {
                *taken = place;
                return (size_t)(to - begin);
            }
            *to++ = letter;
            at = place + 2;
            found &= found - 1;
            /* The second of two backslashes begins no escape. */
            if (letter == '\\' && place + 1 < block + 64)
                found &= found - 1;
        }
        if (at < block + 64) {
            size_t end = size - block < 64 ? size : block + 64;

            memcpy(to, from + at, 64);
            to += end - at;
            at = end;
        }
    }
    *taken = size;
    return (size_t)(to - begin);
}
