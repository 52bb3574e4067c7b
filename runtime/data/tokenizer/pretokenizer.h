/* SPDX-License-Identifier: Apache-2.0 */
/* A text before the model of a tokenizer sees it: rewritten by normalizers and cut into words. For
 * the training of vocabularies.
 *
 *     struct rewriting rewriting = {0};                       one of each per thread
 *     struct splitter splitter = {.options = {.rule = SPLIT_BERT}};
 *
 *     rewrites_run(&rewrites, &rewriting, &text, &length);    'text' is now the rewritten one
 *     split_begin(&splitter, text, length);
 *     while (split_next(&splitter))
 *         for (size_t i = 0; i < splitter.count; i++)
 *             ... a word ends at splitter.base + splitter.ends[i]
 */
#ifndef MEGATRON_PRETOKENIZER_H
#define MEGATRON_PRETOKENIZER_H

#include "rewrite.h"
#include "split.h"

/* ByteLevel: GPT-2's files have one printable character per byte. The character for a byte. */
uint32_t byte_level_character(uint8_t byte);

/* Turn such a text into bytes ('out' has room for 'length'). Returns their number, or SIZE_MAX if a
 * character stands for no byte. */
size_t byte_level_decode(const char *text, size_t length, uint8_t *out);

#endif
