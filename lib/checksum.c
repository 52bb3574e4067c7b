#include "checksum.h"

#include <string.h>

enum { STRIPE = 32 };

/* Odd constants with about as many ones as zeros. */
#define MIX_A 0x9AE16A3B2F90404FULL
#define MIX_B 0xC949C7DEFEB8A6D5ULL

static uint64_t load(const unsigned char *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* Both steps can be undone, so two states that differ stay different. */
static uint64_t mix(uint64_t lane, uint64_t word)
{
    lane = (lane ^ word) * MIX_A;
    return lane ^ lane >> 32;
}

static const unsigned char *add_stripes(struct checksum *sum, const unsigned char *at,
                                        size_t stripes)
{
    uint64_t a = sum->lanes[0], b = sum->lanes[1], c = sum->lanes[2], d = sum->lanes[3];

    for (; stripes > 0; stripes--, at += STRIPE) {
        a = mix(a, load(at));
        b = mix(b, load(at + 8));
        c = mix(c, load(at + 16));
        d = mix(d, load(at + 24));
    }
    sum->lanes[0] = a, sum->lanes[1] = b, sum->lanes[2] = c, sum->lanes[3] = d;
    return at;
}

void checksum_begin(struct checksum *sum)
{
    memset(sum, 0, sizeof(*sum));
    for (uint64_t i = 0; i < 4; i++)
        sum->lanes[i] = (i + 1) * MIX_B;
}

void checksum_add(struct checksum *sum, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;

    sum->length += count;
    if (sum->rest_size > 0) {
        size_t take = STRIPE - sum->rest_size;

        if (take > count)
            take = count;
        memcpy(sum->rest + sum->rest_size, at, take);
        sum->rest_size += take;
        at += take;
        count -= take;
        if (sum->rest_size < STRIPE)
            return;
        add_stripes(sum, sum->rest, 1);
        sum->rest_size = 0;
    }
    at = add_stripes(sum, at, count / STRIPE);
    sum->rest_size = count % STRIPE;
    memcpy(sum->rest, at, sum->rest_size);
}

uint64_t checksum_end(struct checksum *sum)
{
    uint64_t result = sum->length * MIX_B;

    memset(sum->rest + sum->rest_size, 0, STRIPE - sum->rest_size);
    if (sum->rest_size > 0)
        add_stripes(sum, sum->rest, 1);
    for (int i = 0; i < 4; i++)
        result = mix(result, sum->lanes[i]) * MIX_B;
    return result ^ result >> 29;
}

uint64_t checksum_of(const void *bytes, size_t count)
{
    struct checksum sum;

    checksum_begin(&sum);
    checksum_add(&sum, bytes, count);
    return checksum_end(&sum);
}
