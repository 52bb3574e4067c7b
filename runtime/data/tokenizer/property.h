/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of code points, as Hugging Face's tokenizers see them. */
#ifndef MEGATRON_PROPERTY_H
#define MEGATRON_PROPERTY_H

#include <stdbool.h>
#include "unicode.h"

/* General categories, in the order of make_unicode_table. */
enum category {
    CATEGORY_CN,
    CATEGORY_CC,
    CATEGORY_CF,
    CATEGORY_CO,
    CATEGORY_LL,
    CATEGORY_LM,
    CATEGORY_LO,
    CATEGORY_LT,
    CATEGORY_LU,
    CATEGORY_MC,
    CATEGORY_ME,
    CATEGORY_MN,
    CATEGORY_ND,
    CATEGORY_NL,
    CATEGORY_NO,
    CATEGORY_PC,
    CATEGORY_PD,
    CATEGORY_PE,
    CATEGORY_PF,
    CATEGORY_PI,
    CATEGORY_PO,
    CATEGORY_PS,
    CATEGORY_SC,
    CATEGORY_SK,
    CATEGORY_SM,
    CATEGORY_SO,
    CATEGORY_ZL,
    CATEGORY_ZP,
    CATEGORY_ZS,
    CATEGORY_COUNT,
};

enum {
    PROPERTY_REMOVED = 1,     /* BertNormalizer's clean_text removes it */
    PROPERTY_PUNCTUATION = 2, /* BertPreTokenizer isolates it */
    PROPERTY_NONSPACING = 4,  /* BertNormalizer's strip_accents removes it */
    PROPERTY_COMBINING = 8,   /* StripAccents removes it */
    PROPERTY_CLEANED = 16,    /* BertNormalizer's clean_text makes it a space */
    PROPERTY_SPACE = 32,      /* white space */
    PROPERTY_DIGIT = 64,      /* Digits isolates it: nearly always category N */
};

/* Grapheme_Cluster_Break, with Extended_Pictographic and Indic_Conjunct_Break. */
enum grapheme {
    GRAPHEME_OTHER,
    GRAPHEME_CR,
    GRAPHEME_LF,
    GRAPHEME_CONTROL,
    GRAPHEME_EXTEND,
    GRAPHEME_ZWJ,
    GRAPHEME_REGIONAL_INDICATOR,
    GRAPHEME_PREPEND,
    GRAPHEME_SPACING_MARK,
    GRAPHEME_L,
    GRAPHEME_V,
    GRAPHEME_T,
    GRAPHEME_LV,
    GRAPHEME_LVT,
    GRAPHEME_PICTOGRAPHIC,
    GRAPHEME_CONSONANT,
    GRAPHEME_INDIC_EXTEND,
    GRAPHEME_LINKER,
};

/* Is a character part of a text in normalization form C? */
enum form_c { FORM_C_YES, FORM_C_MAYBE, FORM_C_NO };

/* The library's normalization forms implement Unicode 9.0: 'order' and 'form_c' are 0 for later
 * characters, which have no decomposition either. */
struct property {
    uint8_t category, flags, grapheme, script;
    uint8_t order;  /* canonical combining class */
    uint8_t form_c; /* enum form_c */
};

/* The properties of a code point up to U+10FFFF. */
extern const struct property property_kinds[];
static inline struct property property_of(uint32_t point)
{
    return property_kinds[unicode_entry(point) & 0x3FFF];
}

/* A number that is the same for two pages (code point >> 8) whose properties are the same. */
uint32_t property_page(uint32_t page);

/* Write the lower case of a code point to 'out'. Returns its length, 1 or 2. */
size_t property_lower(uint32_t point, uint32_t out[2]);

/* The full canonical decomposition of a code point (at most 4 parts), or with 'compatible' its
 * compatibility decomposition. Returns its length; 0: none, or a Hangul syllable, which nfc.c
 * computes. */
size_t property_decompose(uint32_t point, bool compatible, const uint32_t **parts);

/* The character that two become in form C, or 0. */
uint32_t property_compose(uint32_t first, uint32_t second);

/* Length in bytes of the extended grapheme cluster at the start of a text that is not empty. A byte
 * that is not UTF-8 is a separate cluster. */
size_t grapheme_length(const uint8_t *text, size_t length);

#endif
