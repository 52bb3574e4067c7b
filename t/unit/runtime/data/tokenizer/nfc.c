/* SPDX-License-Identifier: Apache-2.0 */
/* Form C: known texts, all characters one by one, and what must be the same in any order. */
#include "tap.h"
#include "data/tokenizer/nfc.h"
#include "data/tokenizer/unicode.h"

#include <stdlib.h>

static struct nfc nfc;
static struct text_buffer result;

/* What a text becomes, NUL-terminated; what is said to stay must be its begin. */
static const char *composed(const char *text, size_t length)
{
    static char out[1 << 16];
    size_t stays = nfc_stays((const uint8_t *)text, length);

    result.length = 0;
    nfc_rewrite(&nfc, NFC_FORM_C, (const uint8_t *)text, length, &result);
    if (result.length >= sizeof(out))
        return "(fails)";
    if (stays > result.length || (stays > 0 && memcmp(text, result.data, stays) != 0))
        return "(does not stay)";
    if (result.length > 0)
        memcpy(out, result.data, result.length);
    out[result.length] = '\0';
    return out;
}

static void test_texts(void)
{
    static const struct {
        const char *text, *wanted; /* NULL: stays as it is */
    } rows[] = {
        {"", NULL},
        {"plain", NULL},
        {"caf\u00E9 na\u00EFve \u4E2D\u6587 \uD55C\uAE00", NULL},
        {"cafe\u0301", "caf\u00E9"},
        {"cafe\u0301s and more plain text, e\u0301", "caf\u00E9s and more plain text, \u00E9"},
        {"\u212B\u2126\uF900", "\u00C5\u03A9\u8C48"}, /* always become others */
        {"\u0958", "\u0915\u093C"},                   /* and this one two */
        {"a\u0301\u0323", "\u1EA1\u0301"},            /* below goes before above */
        {"\u00E1\u0323", "\u1EA1\u0301"},             /* also out of one that is composed */
        {"x\u0315\u0321", "x\u0321\u0315"},           /* none that composes */
        {"a\u0305\u0301", NULL},                      /* the second one is blocked */
        {"a\u0300\u0301", "\u00E0\u0301"},            /* no such pair */
        {"a\u0305\u0301", NULL},                      /* there is, but one of its class between */
        {"a\u212B", "a\u00C5"},                       /* one behind the other */
        {"x\u0315\u0321", "x\u0321\u0315"},           /* the order alone */
        {"a\u0327\u0301", "\u00E1\u0327"},            /* no such pair, and the next one fits */
        {"\u0301a", NULL},                            /* a mark without a character */
        {"\u0323\u0301", NULL},                       /* and two */
        {"\u0301\u0323", "\u0323\u0301"},             /* in the wrong order */
        {"\u1100\u1161\u11A8", "\uAC01"},             /* syllables */
        {"\uAC00\u11A8", "\uAC01"},                   /* and the rest of one */
        {"\uAC01\u11A8", NULL},                       /* that has an end already */
        {"\uAC00\u11A7", NULL},                       /* one before the first end */
        {"\u1100\u1100\u1161", "\u1100\uAC00"},       /* what begins twice */
        {"\u09C7\u09BE", "\u09CB"},                   /* two that are no marks */
        {"\u0B47\u0300\u0B3E", NULL},                 /* unless one comes between */
        {"\u0F73\u0F71", "\u0F71\u0F71\u0F72"},       /* marks out of one */
        {"<\u0338x", "\u226Ex"},                      /* not only letters */
        {"<=>\u0338", "<=\u226F"},                    /* the last of a plain text */
        {"\u4E2D\u0301\u0323", "\u4E2D\u0323\u0301"}, /* none to go into */
        {"\U0001D160", "\U0001D158\U0001D165\U0001D16E"}, /* three times as long */
        {"\U0002F800", "\u4E3D"},                         /* and shorter */
        {"a\u0C3C\u0334", NULL},                          /* newer than Unicode 9: no mark yet */
        {"\xFF\u0301 \xC3\u0301 \xE4\xB8\u0301", NULL},   /* what is no UTF-8 */
        {"e\u0301\xFF\u0323\u0301\x80\u0301\u0323", "\u00E9\xFF\u0323\u0301\x80\u0323\u0301"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t length = strlen(rows[i].text);
        char name[64];

        snprintf(name, sizeof(name), "text %zu", i);
        is(composed(rows[i].text, length), rows[i].wanted ? rows[i].wanted : rows[i].text, name);
        snprintf(name, sizeof(name), "text %zu once more", i);
        is(composed(rows[i].wanted ? rows[i].wanted : rows[i].text,
                    strlen(rows[i].wanted ? rows[i].wanted : rows[i].text)),
           rows[i].wanted ? rows[i].wanted : rows[i].text, name);
    }
    is_int((int64_t)nfc_stays((const uint8_t *)"plain text e\u0301", 15), 11,
           "a text stays up to the character that a mark goes into");
    is_int((int64_t)nfc_stays((const uint8_t *)"caf\u00E9\u0323", 7), 3, "of two bytes, too");
}

/* Every character becomes what stays, and that is not longer than it may be. */
static void test_characters(void)
{
    int changed = 0, wrong = 0;

    for (uint32_t point = 1; point < 0x110000; point++) {
        char text[8], once[64];
        size_t length;

        if (point >= 0xD800 && point < 0xE000)
            continue;
        length = utf8_encode(point, (uint8_t *)text);
        snprintf(once, sizeof(once), "%s", composed(text, length));
        changed += strlen(once) != length || memcmp(once, text, length) != 0;
        wrong += strlen(once) > 3 * length;
        wrong += strcmp(composed(once, strlen(once)), once) != 0;
    }
    is_int(changed, 1120, "characters that become others");
    is_int(wrong, 0, "for good");
}

/* All syllables of Hangul out of their two or three parts. */
static void test_hangul(void)
{
    int wrong = 0;

    for (uint32_t i = 0; i < 19 * 21 * 28; i++) {
        char parts[16], whole[8];
        size_t length = utf8_encode(0x1100 + i / (21 * 28), (uint8_t *)parts);

        length += utf8_encode(0x1161 + i / 28 % 21, (uint8_t *)parts + length);
        if (i % 28 > 0)
            length += utf8_encode(0x11A7 + i % 28, (uint8_t *)parts + length);
        whole[utf8_encode(0xAC00 + i, (uint8_t *)whole)] = '\0';
        wrong += strcmp(composed(parts, length), whole) != 0;
    }
    is_int(wrong, 0, "syllables");
}

static void shuffle(const char **marks, size_t count)
{
    for (size_t i = count - 1; i > 0; i--) {
        size_t j = (size_t)rand() % (i + 1);
        const char *mark = marks[i];

        marks[i] = marks[j];
        marks[j] = mark;
    }
}

static size_t join(const char *base, const char **marks, size_t count, char *out)
{
    size_t length = (size_t)sprintf(out, "%s", base);

    for (size_t i = 0; i < count; i++)
        length += (size_t)sprintf(out + length, "%s", marks[i]);
    return length;
}

/* Marks of different classes come in one order; those of one class keep theirs. So do many, which
 * are sorted in another way; one of three is two in truth. */
static void test_orders(void)
{
    const char *marks[] = {"\u0334", "\u0321", "\u0323", "\u0302", "\u0345", "\u0315"};
    enum { COUNT = sizeof(marks) / sizeof(marks[0]), MANY = 3000 };
    static const char *many[MANY];
    static char text[1 << 14], wanted[1 << 14];
    size_t length;
    int wrong = 0;

    for (int i = 0; i < 200; i++) {
        shuffle(marks, COUNT);
        length = join("a", marks, COUNT, text);
        wrong += strcmp(composed(text, length), "\u1EAD\u0334\u0321\u0315\u0345") != 0;
    }
    is_int(wrong, 0, "marks of all orders");
    for (size_t i = 0; i < MANY; i++)
        many[i] = i % 3 == 0 ? "\u0334" : i % 3 == 1 ? "\u0345" : "\u0344";
    shuffle(many, MANY);
    length = join("q", many, MANY, text);
    strcpy(wanted, "q");
    for (size_t i = 0; i < MANY; i++)
        strcat(wanted, i < MANY / 3 ? "\u0334" : i < 2 * MANY / 3 ? "\u0308\u0301" : "\u0345");
    ok(strcmp(composed(text, length), wanted) == 0, "thousands of marks");
}

int main(void)
{
    srand(1);
    test_texts();
    test_characters();
    test_hangul();
    test_orders();
    /* A character that only the compatibility forms decompose. */
    result.length = 0;
    nfc_rewrite(&nfc, NFC_FORM_D, (const uint8_t *)"\u309F", 3, &result);
    ok(result.length == 3 && memcmp(result.data, "\u309F", 3) == 0, "form D leaves U+309F");
    result.length = 0;
    nfc_rewrite(&nfc, NFC_FORM_KD, (const uint8_t *)"\u309F", 3, &result);
    ok(result.length == 6 && memcmp(result.data, "\u3088\u308A", 6) == 0, "form KD decomposes it");
    nfc_clear(&nfc);
    text_buffer_clear(&result);
    return done_testing();
}
