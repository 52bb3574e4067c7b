/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "wordlist.h"
#include "hash.h"
#include "data/tokenizer/unicode.h"
#include "base/core/xmalloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_SPACE, KIND_SYMBOL, KIND_DIGIT, KIND_LETTER, KIND_MARK, KIND_ALONE };

struct range {
    uint32_t first, last;
};

/* Combining marks and joiners. */
static bool is_mark(uint32_t point)
{
    static const struct range marks[] = {
        {0x300, 0x36F},   {0x483, 0x489},   {0x591, 0x5BD},   {0x5BF, 0x5BF},   {0x5C1, 0x5C5},
        {0x610, 0x61A},   {0x64B, 0x65F},   {0x670, 0x670},   {0x6D6, 0x6DC},   {0x6DF, 0x6E8},
        {0x6EA, 0x6ED},   {0x711, 0x711},   {0x730, 0x74A},   {0x7A6, 0x7B0},   {0x816, 0x82D},
        {0x859, 0x85B},   {0x8D3, 0x8FF},   {0x900, 0x963},   {0x971, 0xDF3},   {0xE31, 0xE3A},
        {0xE47, 0xE4E},   {0xEB1, 0xEBC},   {0xEC8, 0xECD},   {0xF18, 0xF19},   {0xF35, 0xF39},
        {0xF3E, 0xF3F},   {0xF71, 0xF84},   {0xF8D, 0xFBC},   {0x102B, 0x103E}, {0x1056, 0x1059},
        {0x135D, 0x135F}, {0x1712, 0x1714}, {0x17B4, 0x17D3}, {0x1AB0, 0x1ACE}, {0x1DC0, 0x1DFF},
        {0x200C, 0x200D}, {0x20D0, 0x20F0}, {0x3099, 0x309A}, {0xA66F, 0xA672}, {0xA8E0, 0xA8F1},
        {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}};

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]) && point >= marks[i].first; i++)
        if (point <= marks[i].last)
            return true;
    return false;
}

static bool is_alone(uint32_t point)
{
    return (point >= 0x3040 && point <= 0x30FF) || (point >= 0x3400 && point <= 0x4DBF) ||
           (point >= 0x4E00 && point <= 0x9FFF) || (point >= 0xF900 && point <= 0xFAFF) ||
           (point >= 0x20000 && point <= 0x3FFFF);
}

static enum kind kind_of(uint32_t point, enum words_mode mode)
{
    if (point < 0x80) {
        uint32_t small = point | 0x20;

        if (point == ' ' || (point >= 9 && point <= 13) || (point >= 0x1C && point <= 0x1F))
            return KIND_SPACE;
        if ((small >= 'a' && small <= 'z') || point == '_')
            return point == '_' ? KIND_DIGIT : KIND_LETTER;
        return point >= '0' && point <= '9' ? KIND_DIGIT : KIND_SYMBOL;
    }
    if (mode != WORDS_REGEX && is_alone(point))
        return KIND_ALONE;
    switch (unicode_class(point)) {
    case UNICODE_LETTER:
        return KIND_LETTER;
    case UNICODE_NUMBER:
        return KIND_DIGIT;
    case UNICODE_SPACE:
        return KIND_SPACE;
    default:
        return mode != WORDS_REGEX && is_mark(point) ? KIND_MARK : KIND_SYMBOL;
    }
}

/* Kinds of ASCII characters, for the fast path; other bytes have none. */
enum { BYTE_LETTER = 1, BYTE_DIGIT = 2, BYTE_SPACE = 4, BYTE_SYMBOL = 8 };

/* These split a word if they are between letters or digits; other symbols (don't, 3.5, a@b) do
 * not. */
static bool divides(uint8_t symbol)
{
    return symbol == '-' || symbol == ',' || symbol == ':' || symbol == '/' ||
           (symbol >= '<' && symbol <= '>');
}

static const uint8_t byte_kinds[256] = {
    ['\0' ... 0x08] = BYTE_SYMBOL, ['\t' ... '\r'] = BYTE_SPACE,
    [0x0E ... 0x1B] = BYTE_SYMBOL, [0x1C ... ' '] = BYTE_SPACE,
    ['!' ... '/'] = BYTE_SYMBOL,   ['0' ... '9'] = BYTE_DIGIT,
    [':' ... '@'] = BYTE_SYMBOL,   ['A' ... 'Z'] = BYTE_LETTER,
    ['[' ... '^'] = BYTE_SYMBOL,   ['_'] = BYTE_DIGIT,
    ['`'] = BYTE_SYMBOL,           ['a' ... 'z'] = BYTE_LETTER,
    ['{' ... 0x7F] = BYTE_SYMBOL,
};

/* The current word. */
struct run {
    size_t begin;
    uint32_t chars, flags;
    int open, symbol;
};

static inline void add_word(struct wordlist *words, const char *text, struct run *run, size_t end,
                            enum words_mode mode)
{
    struct word *word;

    run->open = 0;
    if (run->symbol && mode != WORDS_ALL)
        return;
    if (words->count == words->capacity) {
        words->capacity = words->capacity ? words->capacity * 2 : 1024;
        words->items = xrealloc(words->items, words->capacity, sizeof(*words->items));
    }
    word = &words->items[words->count++];
    word->begin = (uint32_t)run->begin;
    word->size = (uint32_t)(end - run->begin);
    word->chars = run->chars;
    word->flags = run->symbol ? (uint32_t)WORD_SYMBOL : run->flags;
    word->hash = hash_bytes(text + run->begin, word->size, 0);
}

/* Is the symbol at 'at', which follows a letter or digit, part of the word? */
static bool joins(const uint8_t *bytes, size_t size, size_t at, enum words_mode mode)
{
    return mode == WORDS_ALL && at + 1 < size && byte_kinds[bytes[at]] == BYTE_SYMBOL &&
           !divides(bytes[at]) && byte_kinds[bytes[at + 1]] & (BYTE_LETTER | BYTE_DIGIT);
}

/* Find ASCII words from 'at' on, up to the first non-ASCII byte. Returns its offset; an unfinished
 * word or symbol is left in 'run'. */
static size_t find_ascii(struct wordlist *words, const char *text, size_t size, size_t at,
                         enum words_mode mode, struct run *run)
{
    const uint8_t *bytes = (const uint8_t *)text;

    while (at < size && !run->open && bytes[at] < 0x80) {
        uint8_t kinds = byte_kinds[bytes[at]], all = 0, wanted;
        size_t begin = at;

        if (kinds == BYTE_SPACE) {
            at++;
            continue;
        }
        wanted = kinds == BYTE_SYMBOL ? BYTE_SYMBOL : BYTE_LETTER | BYTE_DIGIT;
        do {
            all |= kinds;
            kinds = ++at < size ? byte_kinds[bytes[at]] : 0;
        } while (kinds & wanted ||
                 (wanted != BYTE_SYMBOL && kinds == BYTE_SYMBOL && joins(bytes, size, at, mode)));
        *run = (struct run){begin, (uint32_t)(at - begin),
                            all & BYTE_LETTER ? (uint32_t)WORD_ALPHA : 0, 1, wanted == BYTE_SYMBOL};
        if (at == size || bytes[at] < 0x80)
            add_word(words, text, run, at, mode);
    }
    return at;
}

void wordlist_find(struct wordlist *words, const char *text, size_t size, enum words_mode mode)
{
    const uint8_t *bytes = (const uint8_t *)text;
    struct run run = {0, 0, 0, 0, 0};
    size_t at = 0;

    words->count = 0;
    if (size > UINT32_MAX) /* JSON texts are shorter */
        size = UINT32_MAX;
    while (at < size) {
        uint32_t point;
        size_t length;
        enum kind kind;
        int symbol;

        at = find_ascii(words, text, size, at, mode, &run);
        if (at == size)
            break;
        length = utf8_decode(bytes + at, bytes + size, &point);
        kind = kind_of(point, mode);
        /* A mark belongs to the previous character. */
        symbol = (kind == KIND_SYMBOL &&
                  !(run.open && !run.symbol && point < 0x80 && joins(bytes, size, at, mode))) ||
                 (kind == KIND_MARK && !(run.open && !run.symbol));
        if (run.open && (kind == KIND_SPACE || kind == KIND_ALONE || symbol != run.symbol))
            add_word(words, text, &run, at, mode);
        if (kind != KIND_SPACE) {
            if (!run.open)
                run = (struct run){at, 0, 0, 1, symbol};
            run.chars++;
            run.flags |= kind == KIND_LETTER || kind == KIND_ALONE ? (uint32_t)WORD_ALPHA : 0;
        }
        at += length;
        if (kind == KIND_ALONE)
            add_word(words, text, &run, at, mode);
    }
    if (run.open)
        add_word(words, text, &run, size, mode);
}

void wordlist_clear(struct wordlist *words)
{
    free(words->items);
    memset(words, 0, sizeof(*words));
}

/* The lower-case form of a two-byte letter, if it also has two bytes. */
static uint32_t small_letter(uint32_t point)
{
    if ((point >= 0xC0 && point <= 0xDE && point != 0xD7) || (point >= 0x391 && point <= 0x3A9) ||
        (point >= 0x410 && point <= 0x42F))
        return point + 0x20;
    if ((point >= 0x100 && point <= 0x12F) || (point >= 0x132 && point <= 0x137) ||
        (point >= 0x14A && point <= 0x177) || (point >= 0x460 && point <= 0x481) ||
        (point >= 0x48A && point <= 0x4BF) || (point >= 0x4D0 && point <= 0x52F))
        return point | 1;
    if ((point >= 0x139 && point <= 0x148) || (point >= 0x179 && point <= 0x17E) ||
        (point >= 0x4C1 && point <= 0x4CE))
        return point + (point & 1);
    if (point >= 0x400 && point <= 0x40F)
        return point + 0x50;
    if (point >= 0x531 && point <= 0x556)
        return point + 0x30;
    switch (point) {
    case 0x178:
        return 0xFF;
    case 0x386:
        return 0x3AC;
    case 0x388:
    case 0x389:
    case 0x38A:
        return point + 0x25;
    case 0x38C:
        return 0x3CC;
    case 0x38E:
    case 0x38F:
        return point + 0x3F;
    default:
        return point;
    }
}

void wordlist_fold(const char *text, size_t size, char *folded)
{
    int high = 0;

    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];

        folded[i] = (char)(c + ((unsigned char)(c - 'A') < 26 ? 32 : 0));
        high |= c;
    }
    if (!(high & 0x80))
        return;
    for (size_t i = 0; i + 1 < size; i++) {
        unsigned char lead = (unsigned char)text[i];

        if (lead >= 0xC3 && lead <= 0xD6) {
            uint32_t point = (uint32_t)(lead & 0x1F) << 6 | ((unsigned char)text[i + 1] & 0x3F);

            utf8_encode(small_letter(point), (uint8_t *)folded + i);
            i++;
        }
    }
}

size_t text_chars(const char *text, size_t size)
{
    const uint64_t lowest = 0x0101010101010101ull;
    size_t others = 0, i = 0;

    /* Continuation bytes begin with the bits 10. */
    for (; i + 8 <= size; i += 8) {
        uint64_t bytes;

        memcpy(&bytes, text + i, 8);
        others += (size_t)((bytes >> 7 & ~(bytes >> 6) & lowest) * lowest >> 56);
    }
    for (; i < size; i++)
        others += ((unsigned char)text[i] & 0xC0) == 0x80;
    return size - others;
}
