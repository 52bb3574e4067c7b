/* SPDX-License-Identifier: Apache-2.0 */
#include "words.h"

#include <sys/mman.h>

#define HUGE_PAGE (UINT64_C(2) << 20)

int words_init(struct words *words, size_t bytes)
{
    size_t shorts = bytes / 3 * 2, longs, size;
    int short_bits = 0, long_bits = 0;
    char *base;

    memset(words, 0, sizeof(*words));
    while ((sizeof(struct word_short) * 4 << short_bits) <= shorts)
        short_bits++;
    longs = bytes - (sizeof(struct word_short) * 2 << short_bits);
    while ((sizeof(struct word_long) * 4 << long_bits) <= longs)
        long_bits++;
    size =
        (sizeof(struct word_short) * 2 << short_bits) + (sizeof(struct word_long) * 2 << long_bits);
    words->size = size + HUGE_PAGE;
    base = mmap(NULL, words->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        memset(words, 0, sizeof(*words));
        return -1;
    }
    words->memory = base;
    base += (size_t) - (uintptr_t)base & (HUGE_PAGE - 1);
    /* Random access: without huge pages every lookup would also miss the TLB. */
    madvise(base, size, MADV_HUGEPAGE);
    words->shorts = (struct word_short *)base;
    words->longs = (struct word_long *)(base + (sizeof(struct word_short) * 2 << short_bits));
    words->short_shift = 64 - short_bits;
    words->long_shift = 64 - long_bits;
    return 0;
}

void words_clear(struct words *words)
{
    if (words->memory)
        munmap(words->memory, words->size);
    memset(words, 0, sizeof(*words));
}

static void pack(uint8_t *out, const uint32_t *ids, size_t count, int wide)
{
    for (size_t i = 0; i < count; i++) {
        if (wide) {
            out[3 * i] = (uint8_t)ids[i];
            out[3 * i + 1] = (uint8_t)(ids[i] >> 8);
            out[3 * i + 2] = (uint8_t)(ids[i] >> 16);
        } else {
            uint16_t id = (uint16_t)ids[i];

            memcpy(out + 2 * i, &id, 2);
        }
    }
}

void words_put_short(struct words *words, uint64_t low, uint64_t high, const uint32_t *ids,
                     size_t count, int wide, int mark)
{
    struct word_short *set = words->shorts + word_short_set(words, low, high);
    size_t set_count = count;

    if (count > (wide ? WORD_SHORT_WIDE : WORD_SHORT_NARROW))
        set_count = WORD_ELSEWHERE;
    set += set[0].high != 0;
    set[0].low = low;
    set[0].high = high;
    if (set_count == count)
        pack(set[0].ids, ids, count, wide);
    set[0].count = (uint8_t)(set_count == count ? count | (size_t)mark : set_count);
}

void words_put_long(struct words *words, const uint64_t *key, const uint32_t *ids, size_t count,
                    int wide, int mark)
{
    struct word_long *set = words->longs + word_long_set(words, key);

    if (count > (wide ? WORD_LONG_WIDE : WORD_LONG_NARROW))
        return;
    set[1] = set[0];
    memcpy(set[0].key, key, sizeof(set[0].key));
    pack(set[0].ids, ids, count, wide);
    set[0].count = (uint8_t)(count | (size_t)mark);
}
