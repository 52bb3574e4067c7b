/* SPDX-License-Identifier: Apache-2.0 */
/* Unicode normalization. Some Hugging Face tokenizers (Qwen's) first bring a text into form C:
 * characters and the marks after them are composed, in canonical order. Nearly all texts are in
 * this form already, so the check for it must be fast. */
#ifndef MEGATRON_NFC_H
#define MEGATRON_NFC_H

#include <stdbool.h>
#include "tokenizer.h"

enum nfc_form { NFC_FORM_C, NFC_FORM_D, NFC_FORM_KC, NFC_FORM_KD };

/* The number of bytes at the start of the text that form C leaves as they are, whatever follows.
 * Bytes that are not UTF-8 are left alone. */
size_t nfc_stays(const uint8_t *text, size_t length);

/* The characters being composed, with their combining classes. All zero at first. */
struct nfc {
    uint32_t *items;
    size_t count, room;
};

/* Append a text in a form to 'out'. */
void nfc_rewrite(struct nfc *nfc, enum nfc_form form, const uint8_t *text, size_t length,
                 struct text_buffer *out);
void nfc_clear(struct nfc *nfc);

/* The full canonical or compatibility decomposition of a code point, which is itself if it has
 * none. Returns its length; '*parts' may point into 'scratch'. */
size_t nfc_decompose(uint32_t point, bool compatible, uint32_t scratch[3], const uint32_t **parts);

#endif
