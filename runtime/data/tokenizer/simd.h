/* SPDX-License-Identifier: Apache-2.0 */
/* The classes of 64 bytes at a time as bit masks: bit i is byte i. NEON for Grace, AVX2 for all
 * current x86_64, and simple C, the reference that the tests compare both with (-DTOKENIZER_PLAIN)
 * and what runs anywhere else. */
#ifndef MEGATRON_SIMD_H
#define MEGATRON_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Put before a loop with few iterations to have it unrolled, so that vectors stay in registers: GCC
 * does not do so at -O2. */
#if defined(__GNUC__) && !defined(__clang__)
#define UNROLLED _Pragma("GCC unroll 16")
#else
#define UNROLLED
#endif

struct byte_masks {
    uint64_t letter, number; /* ASCII */
    uint64_t space;          /* ASCII white space */
    uint64_t blank;          /* 0x20 */
    uint64_t quote;          /* ' */
    uint64_t high;           /* 0x80 and above */
    uint64_t newline;        /* \r and \n */
    uint64_t slash;          /* / */
    uint64_t upper;          /* A to Z */
};

/* The classes that the normalizer needs. */
struct text_masks {
    uint64_t blank, control, high;    /* control: below 0x20, and 0x7F */
    uint64_t tail, two, three, other; /* beyond ASCII: 80 to BF, C2 to DF, E0 to EF, the rest */
};

#if defined(__aarch64__) && !defined(TOKENIZER_PLAIN)
#include <arm_neon.h>
#define SIMD_NAME "neon"

static inline uint64_t simd_gather(uint8x16_t a, uint8x16_t b, uint8x16_t c, uint8x16_t d)
{
    static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t bits = vld1q_u8(weights);
    uint8x16_t low = vpaddq_u8(vandq_u8(a, bits), vandq_u8(b, bits));
    uint8x16_t high = vpaddq_u8(vandq_u8(c, bits), vandq_u8(d, bits));

    low = vpaddq_u8(low, high);
    low = vpaddq_u8(low, low);
    return vgetq_lane_u64(vreinterpretq_u64_u8(low), 0);
}

#define SIMD_GATHER(expression)                                              \
    __extension__({                                                          \
        uint8x16_t simd_part[4];                                             \
        UNROLLED                                                             \
        for (int simd_i = 0; simd_i < 4; simd_i++) {                         \
            uint8x16_t v = vector[simd_i];                                   \
            simd_part[simd_i] = (expression);                                \
        }                                                                    \
        simd_gather(simd_part[0], simd_part[1], simd_part[2], simd_part[3]); \
    })

static inline void simd_classify(const uint8_t *text, struct byte_masks *masks)
{
    uint8x16_t vector[4];

    UNROLLED
    for (int i = 0; i < 4; i++)
        vector[i] = vld1q_u8(text + 16 * i);
    masks->letter = SIMD_GATHER(
        vcltq_u8(vsubq_u8(vorrq_u8(v, vdupq_n_u8(0x20)), vdupq_n_u8('a')), vdupq_n_u8(26)));
    masks->number = SIMD_GATHER(vcltq_u8(vsubq_u8(v, vdupq_n_u8('0')), vdupq_n_u8(10)));
    masks->blank = SIMD_GATHER(vceqq_u8(v, vdupq_n_u8(' ')));
    masks->space = masks->blank | SIMD_GATHER(vcltq_u8(vsubq_u8(v, vdupq_n_u8(9)), vdupq_n_u8(5)));
    masks->quote = SIMD_GATHER(vceqq_u8(v, vdupq_n_u8('\'')));
    masks->high = SIMD_GATHER(vcgeq_u8(v, vdupq_n_u8(0x80)));
    masks->newline =
        SIMD_GATHER(vorrq_u8(vceqq_u8(v, vdupq_n_u8('\n')), vceqq_u8(v, vdupq_n_u8('\r'))));
    masks->slash = SIMD_GATHER(vceqq_u8(v, vdupq_n_u8('/')));
    masks->upper = SIMD_GATHER(vcltq_u8(vsubq_u8(v, vdupq_n_u8('A')), vdupq_n_u8(26)));
}

/* Copy 64 bytes and classify them. The masks for bytes beyond ASCII are only set if there are any.
 */
static inline void simd_copy(const uint8_t *text, uint8_t *out, struct text_masks *masks)
{
    uint8x16_t vector[4];

    UNROLLED
    for (int i = 0; i < 4; i++) {
        vector[i] = vld1q_u8(text + 16 * i);
        vst1q_u8(out + 16 * i, vector[i]);
    }
    masks->blank = SIMD_GATHER(vceqq_u8(v, vdupq_n_u8(' ')));
    masks->control =
        SIMD_GATHER(vorrq_u8(vcltq_u8(v, vdupq_n_u8(' ')), vceqq_u8(v, vdupq_n_u8(0x7F))));
    masks->high = SIMD_GATHER(vcgeq_u8(v, vdupq_n_u8(0x80)));
    if (masks->high == 0)
        return;
    masks->tail = SIMD_GATHER(vcltq_u8(vsubq_u8(v, vdupq_n_u8(0x80)), vdupq_n_u8(0x40)));
    masks->two = SIMD_GATHER(vcltq_u8(vsubq_u8(v, vdupq_n_u8(0xC2)), vdupq_n_u8(0x1E)));
    masks->three = SIMD_GATHER(vcltq_u8(vsubq_u8(v, vdupq_n_u8(0xE0)), vdupq_n_u8(0x10)));
    masks->other = masks->high & ~(masks->tail | masks->two | masks->three);
}

/* Of 64 bytes, at least those from 0xC0 to 0xEF for which table[byte - 0xC0] is 0xFF and not 0. */
#define SIMD_SELECT
static inline uint64_t simd_select(const uint8_t *text, const uint8_t *table)
{
    uint8x16x3_t places = {{vld1q_u8(table), vld1q_u8(table + 16), vld1q_u8(table + 32)}};
    uint8x16_t vector[4];

    UNROLLED
    for (int i = 0; i < 4; i++)
        vector[i] = vld1q_u8(text + 16 * i);
    return SIMD_GATHER(vqtbl3q_u8(places, vsubq_u8(v, vdupq_n_u8(0xC0))));
}

/* The lowest of 'count' numbers, a multiple of 8. */
static inline uint32_t simd_lowest(const uint32_t *numbers, size_t count)
{
    uint32x4_t low = vdupq_n_u32(UINT32_MAX), high = low;

    for (size_t i = 0; i < count; i += 8) {
        low = vminq_u32(low, vld1q_u32(numbers + i));
        high = vminq_u32(high, vld1q_u32(numbers + i + 4));
    }
    return vminvq_u32(vminq_u32(low, high));
}

/* Sixteen numbers in registers. */
struct simd_sixteen {
    uint32x4_t parts[4];
};

static inline struct simd_sixteen simd_load(const uint32_t *numbers)
{
    return (struct simd_sixteen){{vld1q_u32(numbers), vld1q_u32(numbers + 4),
                                  vld1q_u32(numbers + 8), vld1q_u32(numbers + 12)}};
}

static inline void simd_set(struct simd_sixteen *all, size_t at, uint32_t number)
{
    static const uint32_t places[4] = {0, 1, 2, 3};
    uint32x4_t place = vld1q_u32(places), wanted = vdupq_n_u32((uint32_t)at);

    UNROLLED
    for (int i = 0; i < 4; i++) {
        all->parts[i] = vbslq_u32(vceqq_u32(place, wanted), vdupq_n_u32(number), all->parts[i]);
        place = vaddq_u32(place, vdupq_n_u32(4));
    }
}

static inline uint32_t simd_lowest_of(const struct simd_sixteen *all)
{
    return vminvq_u32(vminq_u32(vminq_u32(all->parts[0], all->parts[1]),
                                vminq_u32(all->parts[2], all->parts[3])));
}

#elif defined(__AVX2__) && !defined(TOKENIZER_PLAIN)
#include <immintrin.h>
#define SIMD_NAME "avx2"

#define SIMD_GATHER(expression)                                                               \
    __extension__({                                                                           \
        uint64_t simd_bits = 0;                                                               \
        UNROLLED                                                                              \
        for (int simd_i = 0; simd_i < 2; simd_i++) {                                          \
            __m256i v = vector[simd_i];                                                       \
            simd_bits |= (uint64_t)(uint32_t)_mm256_movemask_epi8(expression) << 32 * simd_i; \
        }                                                                                     \
        simd_bits;                                                                            \
    })

/* Bytes from 'low' on, fewer than 'count' (unsigned: the subtraction wraps). */
static inline __m256i simd_within(__m256i v, char low, char count)
{
    __m256i moved = _mm256_sub_epi8(v, _mm256_set1_epi8(low));

    return _mm256_cmpeq_epi8(_mm256_min_epu8(moved, _mm256_set1_epi8((char)(count - 1))), moved);
}

static inline void simd_classify(const uint8_t *text, struct byte_masks *masks)
{
    __m256i vector[2];

    UNROLLED
    for (int i = 0; i < 2; i++)
        vector[i] = _mm256_loadu_si256((const __m256i *)(text + 32 * i));
    masks->letter = SIMD_GATHER(simd_within(_mm256_or_si256(v, _mm256_set1_epi8(0x20)), 'a', 26));
    masks->number = SIMD_GATHER(simd_within(v, '0', 10));
    masks->blank = SIMD_GATHER(_mm256_cmpeq_epi8(v, _mm256_set1_epi8(' ')));
    masks->space = masks->blank | SIMD_GATHER(simd_within(v, 9, 5));
    masks->quote = SIMD_GATHER(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('\'')));
    masks->high = SIMD_GATHER(v);
    masks->newline = SIMD_GATHER(_mm256_or_si256(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('\n')),
                                                 _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\r'))));
    masks->slash = SIMD_GATHER(_mm256_cmpeq_epi8(v, _mm256_set1_epi8('/')));
    masks->upper = SIMD_GATHER(simd_within(v, 'A', 26));
}

static inline void simd_copy(const uint8_t *text, uint8_t *out, struct text_masks *masks)
{
    __m256i vector[2];

    UNROLLED
    for (int i = 0; i < 2; i++) {
        vector[i] = _mm256_loadu_si256((const __m256i *)(text + 32 * i));
        _mm256_storeu_si256((__m256i *)(out + 32 * i), vector[i]);
    }
    masks->blank = SIMD_GATHER(_mm256_cmpeq_epi8(v, _mm256_set1_epi8(' ')));
    masks->control = SIMD_GATHER(
        _mm256_or_si256(simd_within(v, 0, ' '), _mm256_cmpeq_epi8(v, _mm256_set1_epi8(0x7F))));
    masks->high = SIMD_GATHER(v);
    if (masks->high == 0)
        return;
    masks->tail = SIMD_GATHER(simd_within(v, (char)0x80, 0x40));
    masks->two = SIMD_GATHER(simd_within(v, (char)0xC2, 0x1E));
    masks->three = SIMD_GATHER(simd_within(v, (char)0xE0, 0x10));
    masks->other = masks->high & ~(masks->tail | masks->two | masks->three);
}

static inline uint32_t simd_lowest(const uint32_t *numbers, size_t count)
{
    __m256i low = _mm256_set1_epi32(-1);
    __m128i half;

    for (size_t i = 0; i < count; i += 8)
        low = _mm256_min_epu32(low, _mm256_loadu_si256((const __m256i *)(numbers + i)));
    half = _mm_min_epu32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    half = _mm_min_epu32(half, _mm_shuffle_epi32(half, 0x4E));
    half = _mm_min_epu32(half, _mm_shuffle_epi32(half, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(half);
}

struct simd_sixteen {
    __m256i parts[2];
};

static inline struct simd_sixteen simd_load(const uint32_t *numbers)
{
    return (struct simd_sixteen){{_mm256_loadu_si256((const __m256i *)numbers),
                                  _mm256_loadu_si256((const __m256i *)(numbers + 8))}};
}

static inline void simd_set(struct simd_sixteen *all, size_t at, uint32_t number)
{
    __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i wanted = _mm256_set1_epi32((int)at), value = _mm256_set1_epi32((int)number);

    UNROLLED
    for (int i = 0; i < 2; i++) {
        all->parts[i] = _mm256_blendv_epi8(all->parts[i], value, _mm256_cmpeq_epi32(place, wanted));
        place = _mm256_add_epi32(place, _mm256_set1_epi32(8));
    }
}

static inline uint32_t simd_lowest_of(const struct simd_sixteen *all)
{
    __m256i low = _mm256_min_epu32(all->parts[0], all->parts[1]);
    __m128i half = _mm_min_epu32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));

    half = _mm_min_epu32(half, _mm_shuffle_epi32(half, 0x4E));
    half = _mm_min_epu32(half, _mm_shuffle_epi32(half, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(half);
}

#else
#define SIMD_NAME "plain"

static inline uint32_t simd_lowest(const uint32_t *numbers, size_t count)
{
    uint32_t low = UINT32_MAX;

    for (size_t i = 0; i < count; i++)
        low = numbers[i] < low ? numbers[i] : low;
    return low;
}

struct simd_sixteen {
    uint32_t parts[16];
};

static inline struct simd_sixteen simd_load(const uint32_t *numbers)
{
    struct simd_sixteen all;

    memcpy(all.parts, numbers, sizeof(all.parts));
    return all;
}

static inline void simd_set(struct simd_sixteen *all, size_t at, uint32_t number)
{
    all->parts[at] = number;
}

static inline uint32_t simd_lowest_of(const struct simd_sixteen *all)
{
    return simd_lowest(all->parts, 16);
}

static inline void simd_copy(const uint8_t *text, uint8_t *out, struct text_masks *masks)
{
    memset(masks, 0, sizeof(*masks));
    memcpy(out, text, 64);
    for (int i = 0; i < 64; i++) {
        uint8_t c = text[i];

        masks->blank |= (uint64_t)(c == ' ') << i;
        masks->control |= (uint64_t)(c < ' ' || c == 0x7F) << i;
        masks->high |= (uint64_t)(c >= 0x80) << i;
        masks->tail |= (uint64_t)(c >= 0x80 && c < 0xC0) << i;
        masks->two |= (uint64_t)(c >= 0xC2 && c < 0xE0) << i;
        masks->three |= (uint64_t)(c >= 0xE0 && c < 0xF0) << i;
    }
    masks->other = masks->high & ~(masks->tail | masks->two | masks->three);
}

static inline void simd_classify(const uint8_t *text, struct byte_masks *masks)
{
    memset(masks, 0, sizeof(*masks));
    for (int i = 0; i < 64; i++) {
        uint8_t c = text[i];

        masks->letter |= (uint64_t)((uint8_t)((c | 0x20) - 'a') < 26) << i;
        masks->number |= (uint64_t)((uint8_t)(c - '0') < 10) << i;
        masks->space |= (uint64_t)(c == ' ' || (uint8_t)(c - 9) < 5) << i;
        masks->blank |= (uint64_t)(c == ' ') << i;
        masks->quote |= (uint64_t)(c == '\'') << i;
        masks->high |= (uint64_t)(c >= 0x80) << i;
        masks->newline |= (uint64_t)(c == '\n' || c == '\r') << i;
        masks->slash |= (uint64_t)(c == '/') << i;
        masks->upper |= (uint64_t)((uint8_t)(c - 'A') < 26) << i;
    }
}

#endif

#ifndef SIMD_SELECT
/* Looking them up one by one takes as long as what the caller does with each. */
static inline uint64_t simd_select(const uint8_t *text, const uint8_t *table)
{
    (void)text;
    (void)table;
    return UINT64_MAX;
}
#endif

#endif
