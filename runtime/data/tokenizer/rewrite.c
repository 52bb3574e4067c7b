/* SPDX-License-Identifier: Apache-2.0 */
#include "rewrite.h"
#include "property.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_LIMIT (UINT64_C(1) << 32)

void rewrites_clear(struct rewrites *rewrites)
{
    for (size_t i = 0; i < rewrites->count; i++) {
        struct rewrite *rewrite = &rewrites->list[i];

        if (rewrite->regex)
            regex_clear(rewrite->regex);
        if (rewrite->map)
            normalizer_clear(rewrite->map);
        free(rewrite->regex);
        free(rewrite->map);
        free(rewrite->content);
    }
    memset(rewrites, 0, sizeof(*rewrites));
}

void rewriting_clear(struct rewriting *rewriting)
{
    text_buffer_clear(&rewriting->texts[0]);
    text_buffer_clear(&rewriting->texts[1]);
    nfc_clear(&rewriting->nfc);
    rewrite_points_clear(&rewriting->points);
    rewriting->bert = NULL;
}

/* Lower case, without accents, or as sentencepiece's nmt does it: one character at a time. */
static size_t change_character(enum rewrite_kind kind, uint32_t point, uint32_t out[2])
{
    out[0] = point;
    if (kind == REWRITE_LOWERCASE)
        return property_lower(point, out);
    if (kind == REWRITE_STRIP_ACCENTS)
        return !(property_of(point).flags & PROPERTY_COMBINING);
    if ((point >= 1 && point <= 8) || point == 0xB || (point >= 0xE && point <= 0x1F) ||
        point == 0x7F || point == 0x8F || point == 0x9F)
        return 0;
    if (point == 9 || point == 0xA || point == 0xC || point == 0xD || point == 0x1680 ||
        (point >= 0x200B && point <= 0x200F) || point == 0x2028 || point == 0x2029 ||
        point == 0x2581 || point == 0xFEFF || point == 0xFFFD)
        out[0] = ' ';
    return 1;
}

static void rewrite_characters(enum rewrite_kind kind, const uint8_t *text, size_t length,
                               struct text_buffer *out)
{
    const uint8_t *end = text + length;

    while (text < end) {
        uint32_t point, changed[2];
        size_t count;

        text += utf8_decode(text, end, &point);
        if (point == UNICODE_INVALID)
            point = UNICODE_REPLACEMENT;
        count = change_character(kind, point, changed);
        text_buffer_reserve(out, 8);
        for (size_t i = 0; i < count; i++)
            out->length += utf8_encode(changed[i], (uint8_t *)out->data + out->length);
    }
}

static int is_space(uint32_t point)
{
    return point != UNICODE_INVALID && (property_of(point).flags & PROPERTY_SPACE);
}

/* Strip white space by moving the ends of the text. */
static void strip(const struct rewrite *rewrite, const uint8_t **text, size_t *length)
{
    const uint8_t *begin = *text, *end = begin + *length, *last;
    uint32_t point;

    while (rewrite->left && begin < end) {
        size_t size = utf8_decode(begin, end, &point);

        if (!is_space(point))
            break;
        begin += size;
    }
    while (rewrite->right && begin < end) {
        for (last = end - 1; last > begin && (*last & 0xC0) == 0x80; last--)
            ;
        if (utf8_decode(last, end, &point) != (size_t)(end - last) || !is_space(point))
            break;
        end = last;
    }
    *text = begin;
    *length = (size_t)(end - begin);
}

static void rewrite_replace(const struct rewrite *rewrite, const uint8_t *text, size_t length,
                            struct text_buffer *out)
{
    const uint8_t *end = text + length, *copied = text;

    while (text < end) {
        size_t size = rewrite->regex->starts[*text] ? regex_match(rewrite->regex, text, end) : 0;
        uint32_t point;

        if (size == 0) {
            text += utf8_decode(text, end, &point);
            continue;
        }
        text_buffer_put(out, copied, (size_t)(text - copied));
        text_buffer_put(out, rewrite->content, rewrite->content_length);
        text += size;
        copied = text;
    }
    text_buffer_put(out, copied, (size_t)(end - copied));
}

/* Hugging Face looks up short grapheme clusters as a whole and uses the first entry that they begin
 * with; longer ones are handled character by character. */
static void rewrite_mapped(const struct rewrite *rewrite, const uint8_t *text, size_t length,
                           struct text_buffer *out)
{
    const struct normalizer *map = rewrite->map;
    const uint8_t *end = text + length;

    while (text < end) {
        const char *mapped = NULL;
        size_t run = normalizer_plain_run(map, text, (size_t)(end - text), SIZE_MAX), size,
               mapped_length;

        if (run > 0) {
            text_buffer_put(out, text, run);
            text += run;
            continue;
        }
        size = grapheme_length(text, (size_t)(end - text));
        if (size < 6)
            mapped = normalizer_look_up_first(map, text, size, &mapped_length);
        if (mapped)
            text_buffer_put(out, mapped, mapped_length);
        for (size_t at = 0, one; !mapped && at < size; at += one) {
            const char *piece = "\xEF\xBF\xBD";
            size_t piece_length = 3;
            uint32_t point;

            one = utf8_decode(text + at, text + size, &point);
            if (point != UNICODE_INVALID) {
                piece = normalizer_look_up_first(map, text + at, one, &piece_length);
                if (!piece) {
                    piece = (const char *)text + at;
                    piece_length = one;
                }
            }
            text_buffer_put(out, piece, piece_length);
        }
        text += size;
    }
}

static void run_one(const struct rewrite *rewrite, struct rewriting *rewriting, const uint8_t *text,
                    size_t length, struct text_buffer *out)
{
    switch (rewrite->kind) {
    case REWRITE_FORM:
        nfc_rewrite(&rewriting->nfc, rewrite->form, text, length, out);
        break;
    case REWRITE_BERT:
        if (!rewriting->bert)
            rewriting->bert = rewrite;
        rewrite_bert(rewrite, rewriting->bert == rewrite ? &rewriting->points : NULL, text, length,
                     out);
        break;
    case REWRITE_REPLACE:
        rewrite_replace(rewrite, text, length, out);
        break;
    case REWRITE_PREPEND:
        text_buffer_put(out, rewrite->content, rewrite->content_length);
        text_buffer_put(out, text, length);
        break;
    case REWRITE_PRECOMPILED:
        rewrite_mapped(rewrite, text, length, out);
        break;
    default:
        rewrite_characters(rewrite->kind, text, length, out);
    }
}

int rewrites_run(const struct rewrites *rewrites, struct rewriting *rewriting, const uint8_t **text,
                 size_t *length)
{
    size_t turn = 0;

    for (size_t i = 0; i<rewrites->count && * length> 0; i++) {
        const struct rewrite *rewrite = &rewrites->list[i];
        struct text_buffer *out = &rewriting->texts[turn];

        if (rewrite->kind == REWRITE_STRIP) {
            strip(rewrite, text, length);
            continue;
        }
        if (rewrite->kind == REWRITE_FORM && rewrite->form == NFC_FORM_C &&
            nfc_stays(*text, *length) == *length)
            continue;
        out->length = 0;
        run_one(rewrite, rewriting, *text, *length, out);
        if (out->length >= TEXT_LIMIT)
            return -1;
        *text = (const uint8_t *)out->data;
        *length = out->length;
        turn = !turn;
    }
    return 0;
}
