/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: vectorized search for special characters, 16 bytes at a time, with SSE2 (all
 * x86-64) or NEON (all AArch64); WIKI_VECTOR is defined if available. A comparison yields a bit
 * mask of WIKI_LANE bits per byte, the first byte lowest. */
#ifndef MEGATRON_CORPUS_WIKI_VECTOR_H
#define MEGATRON_CORPUS_WIKI_VECTOR_H

#include <stdint.h>

#if defined(__SSE2__)
#include <emmintrin.h>

#define WIKI_VECTOR 16
#define WIKI_LANE   1
typedef __m128i wiki_bytes;

static inline wiki_bytes wiki_vector(const char *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* Compare: bytes equal to 'c'; bytes in [low, high]. */
static inline wiki_bytes wiki_vector_is(wiki_bytes bytes, char c)
{
    return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c));
}

static inline wiki_bytes wiki_vector_in(wiki_bytes bytes, unsigned char low, unsigned char high)
{
    __m128i offset = _mm_sub_epi8(bytes, _mm_set1_epi8((char)low));

    return _mm_cmpeq_epi8(_mm_min_epu8(offset, _mm_set1_epi8((char)(high - low))), offset);
}

static inline wiki_bytes wiki_vector_or(wiki_bytes a, wiki_bytes b)
{
    return _mm_or_si128(a, b);
}

/* Bytes with the bits of 'c' set. */
static inline wiki_bytes wiki_vector_set(wiki_bytes bytes, char c)
{
    return _mm_or_si128(bytes, _mm_set1_epi8(c));
}

/* The mask of bytes that are 0 or 255. */
static inline uint64_t wiki_vector_bits(wiki_bytes bytes)
{
    return (uint64_t)(unsigned)_mm_movemask_epi8(bytes);
}

#elif defined(__aarch64__) && defined(__ARM_NEON) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <arm_neon.h>

#define WIKI_VECTOR 16
#define WIKI_LANE   4
typedef uint8x16_t wiki_bytes;

static inline wiki_bytes wiki_vector(const char *at)
{
    return vld1q_u8((const uint8_t *)at);
}

static inline wiki_bytes wiki_vector_is(wiki_bytes bytes, char c)
{
    return vceqq_u8(bytes, vdupq_n_u8((uint8_t)c));
}

static inline wiki_bytes wiki_vector_in(wiki_bytes bytes, unsigned char low, unsigned char high)
{
    return vcleq_u8(vsubq_u8(bytes, vdupq_n_u8(low)), vdupq_n_u8((uint8_t)(high - low)));
}

static inline wiki_bytes wiki_vector_or(wiki_bytes a, wiki_bytes b)
{
    return vorrq_u8(a, b);
}

static inline wiki_bytes wiki_vector_set(wiki_bytes bytes, char c)
{
    return vorrq_u8(bytes, vdupq_n_u8((uint8_t)c));
}

static inline uint64_t wiki_vector_bits(wiki_bytes bytes)
{
    return vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(bytes), 4)), 0);
}
#endif

#ifdef WIKI_VECTOR
/* Masks of the first byte, and of all but the last one. */
#define WIKI_FIRST    ((UINT64_C(1) << WIKI_LANE) - 1)
#define WIKI_NOT_LAST ((UINT64_C(1) << (WIKI_VECTOR - 1) * WIKI_LANE) - 1)

/* The index of the first byte in a mask. */
static inline unsigned wiki_vector_first(uint64_t bits)
{
    return (unsigned)__builtin_ctzll(bits) / WIKI_LANE;
}

/* Find the first byte in [at, end) that 'marks' selects, or stop less than a vector before the
 * end. */
static inline __attribute__((always_inline)) const char *
wiki_vector_find(const char *at, const char *end, wiki_bytes (*marks)(wiki_bytes bytes))
{
    for (; end - at >= WIKI_VECTOR; at += WIKI_VECTOR) {
        uint64_t bits = wiki_vector_bits(marks(wiki_vector(at)));

        if (bits)
            return at + wiki_vector_first(bits);
    }
    return at;
}
#endif
#endif
