/* SPDX-License-Identifier: Apache-2.0 */
/* The scripts of Unicode (Latin, Han...), as SentencePiece's trainer groups them. */
#ifndef MEGATRON_SCRIPT_H
#define MEGATRON_SCRIPT_H

#include <stdint.h>

/* Other scripts have other numbers. */
enum {
    SCRIPT_COMMON,    /* digits, punctuation, symbols, and code points without a script */
    SCRIPT_INHERITED, /* marks, which have the script of the character before them */
};

/* The script of a code point up to U+10FFFF. Hiragana and Katakana count as Han. */
uint8_t script_of(uint32_t point);

#endif
