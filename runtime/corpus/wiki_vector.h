/* SPDX-License-Identifier: Apache-2.0 */
/* Searches for special characters, 16 bytes at a time where SSE2 is there (on every x86-64). The
 * bytes of a vector become the bits of a number, the first of them the lowest. */
#ifndef MEGATRON_CORPUS_WIKI_VECTOR_H
#define MEGATRON_CORPUS_WIKI_VECTOR_H

#ifdef __SSE2__
#include <emmintrin.h>

enum { WIKI_VECTOR = 16 };

static inline __m128i wiki_vector(const char *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* Bytes that are 'c'; that are in [low, high]. */
static inline __m128i wiki_vector_is(__m128i bytes, char c)
{
    return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c));
}

static inline __m128i wiki_vector_in(__m128i bytes, unsigned char low, unsigned char high)
{
    __m128i offset = _mm_sub_epi8(bytes, _mm_set1_epi8((char)low));

    return _mm_cmpeq_epi8(_mm_min_epu8(offset, _mm_set1_epi8((char)(high - low))), offset);
}

static inline __m128i wiki_vector_or(__m128i a, __m128i b)
{
    return _mm_or_si128(a, b);
}

static inline unsigned wiki_vector_bits(__m128i bytes)
{
    return (unsigned)_mm_movemask_epi8(bytes);
}

/* The first byte in [at, end) that 'marks' (a function of a vector) marks, or a place less than a
 * vector before the end. */
static inline __attribute__((always_inline)) const char *
wiki_vector_find(const char *at, const char *end, __m128i (*marks)(__m128i bytes))
{
    for (; end - at >= WIKI_VECTOR; at += WIKI_VECTOR) {
        unsigned bits = wiki_vector_bits(marks(wiki_vector(at)));

        if (bits)
            return at + __builtin_ctz(bits);
    }
    return at;
}

#endif
#endif
