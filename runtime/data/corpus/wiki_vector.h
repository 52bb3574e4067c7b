/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: searches for special characters, 16 bytes at a time, with the vector
 * extensions of C compilers. A comparison (bytes == '[') sets all bits of the bytes that match. */
#ifndef MEGATRON_CORPUS_WIKI_VECTOR_H
#define MEGATRON_CORPUS_WIKI_VECTOR_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_NEON) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <arm_neon.h>
#define WIKI_NEON
#endif

enum { WIKI_VECTOR = 16 };
typedef unsigned char wiki_bytes __attribute__((vector_size(WIKI_VECTOR)));
typedef signed char wiki_matches __attribute__((vector_size(WIKI_VECTOR)));

/* A mask has WIKI_LANE bits per byte, the first byte lowest. */
#ifdef WIKI_NEON
enum { WIKI_LANE = 4 };
#else
enum { WIKI_LANE = 1 };
#endif
/* Masks of the first byte, and of all but the last one. */
#define WIKI_FIRST    ((UINT64_C(1) << WIKI_LANE) - 1)
#define WIKI_NOT_LAST ((UINT64_C(1) << (WIKI_VECTOR - 1) * WIKI_LANE) - 1)

static inline uint64_t wiki_mask(wiki_matches matches)
{
#if defined(__SSE2__)
    return (uint64_t)(unsigned)_mm_movemask_epi8((__m128i)matches);
#elif defined(WIKI_NEON)
    return vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16((uint16x8_t)matches, 4)), 0);
#else
    uint64_t mask = 0;

    for (int i = 0; i < WIKI_VECTOR; i++)
        mask |= (uint64_t)(matches[i] & 1) << i;
    return mask;
#endif
}

/* The index of the first byte in a mask. */
static inline unsigned wiki_first(uint64_t mask)
{
    return (unsigned)__builtin_ctzll(mask) / WIKI_LANE;
}

static inline wiki_bytes wiki_load(const char *at)
{
    wiki_bytes bytes;

    memcpy(&bytes, at, sizeof(bytes));
    return bytes;
}

/* Bytes in [low, high]. */
static inline wiki_matches wiki_in(wiki_bytes bytes, unsigned char low, unsigned char high)
{
    return bytes - low <= (unsigned char)(high - low);
}

/* Find the first byte in [at, end) that 'marks' selects, or 'end'. WIKI_VECTOR bytes after it must
 * be readable. 'marks' must be constant, so that it is inlined. */
static inline __attribute__((always_inline)) const char *
wiki_find_mark(const char *at, const char *end, wiki_matches (*marks)(wiki_bytes bytes))
{
    for (; at < end; at += WIKI_VECTOR) {
        uint64_t mask = wiki_mask(marks(wiki_load(at)));

        if (mask) {
            at += wiki_first(mask);
            break;
        }
    }
    return at < end ? at : end;
}

#endif
