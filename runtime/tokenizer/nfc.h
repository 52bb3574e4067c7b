/* SPDX-License-Identifier: Apache-2.0 */
/* Unicode's normalization form C: characters and the marks behind them are composed, in the one
 * order they have. Some tokenizers of Hugging Face (Qwen's) ask for it before anything else. Nearly
 * all texts are in this form already, and finding that out is what has to be fast. */
#ifndef MEGATRON_NFC_H
#define MEGATRON_NFC_H

#include "tokenizer.h"

#define NFC_GROWTH 3 /* times: a text in form C has at most so many bytes */

/* How many bytes at the begin of the text stay as they are, whatever becomes of the rest. What is
 * no UTF-8 stays. */
size_t nfc_stays(const uint8_t *text, size_t length);

/* A text in form C, and the characters that are being composed. All zeros to begin with. */
struct nfc {
    struct text_buffer text;
    uint32_t *points; /* with their combining classes */
    size_t count, points_room;
};

/* Replace the text in 'nfc' by this one in form C. Returns -1 when memory is out. */
int nfc_compose(struct nfc *nfc, const uint8_t *text, size_t length);
void nfc_clear(struct nfc *nfc);

/* The same for any form. */
enum nfc_form { NFC_FORM_C, NFC_FORM_D, NFC_FORM_KC, NFC_FORM_KD };
int nfc_rewrite(struct nfc *nfc, enum nfc_form form, const uint8_t *text, size_t length);

/* The combining class of a code point. */
uint8_t nfc_order(uint32_t point);

/* The canonical decomposition of a code point. Returns its length. */
#define NFC_MOST_PARTS 4
size_t nfc_decompose(uint32_t point, uint32_t parts[NFC_MOST_PARTS]);

#endif
