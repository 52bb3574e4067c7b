/* SPDX-License-Identifier: Apache-2.0 */
/* The normalizers of a tokenizer.json as a chain: each rewrites the text of the one before. */
#ifndef MEGATRON_REWRITE_H
#define MEGATRON_REWRITE_H

#include "nfc.h"
#include "normalize.h"
#include "regex.h"
#include "tokenizer.h"

enum rewrite_kind {
    REWRITE_FORM, /* NFC, NFD, NFKC, NFKD */
    REWRITE_BERT,
    REWRITE_LOWERCASE,
    REWRITE_STRIP_ACCENTS,
    REWRITE_STRIP,
    REWRITE_REPLACE,
    REWRITE_PREPEND,
    REWRITE_PRECOMPILED,
    REWRITE_NMT,
};

/* REWRITE_BERT: what a code point below REWRITE_POINTS becomes, whatever is around it. */
#define REWRITE_POINTS 0x10000
#define REWRITE_SLOW   255
struct rewrite_point {
    uint8_t text[15];
    uint8_t length; /* REWRITE_SLOW: what is around it matters, or it is too long */
};

struct rewrite {
    enum rewrite_kind kind;
    enum nfc_form form;
    int clean, chinese, accents, lower; /* REWRITE_BERT: 'accents' are stripped */
    struct rewrite_point *points;       /* REWRITE_BERT; may be NULL, which is slower */
    int left, right;                    /* REWRITE_STRIP */
    struct regex *regex;                /* REWRITE_REPLACE */
    char *content;                      /* REWRITE_REPLACE and REWRITE_PREPEND */
    size_t content_length;
    struct normalizer *map; /* REWRITE_PRECOMPILED */
};

#define REWRITES_MOST 16
struct rewrites {
    struct rewrite list[REWRITES_MOST];
    size_t count;
};

void rewrites_clear(struct rewrites *rewrites);

/* Memory for texts on their way. All zero at first. */
struct rewriting {
    struct text_buffer texts[2];
    struct nfc nfc;
};
void rewriting_clear(struct rewriting *rewriting);

/* Rewrite a text; '*text' and '*length' are then those of the result, which is in 'rewriting' or,
 * if nothing changes, the original. Returns 0, or -1 if out of memory. */
int rewrites_run(const struct rewrites *rewrites, struct rewriting *rewriting, const uint8_t **text,
                 size_t *length);

/* Fill the table of a REWRITE_BERT that has its settings. Without memory it has none. */
void rewrite_bert_prepare(struct rewrite *rewrite);

/* Within rewrite*.c. */
int rewrite_bert(const struct rewrite *rewrite, const uint8_t *text, size_t length,
                 struct text_buffer *out);

#endif
