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

struct rewrite {
    enum rewrite_kind kind;
    enum nfc_form form;
    int clean, chinese, accents, lower; /* REWRITE_BERT: 'accents' are stripped */
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

/* The result of a REWRITE_BERT for a code point, if it does not depend on its neighbors. */
#define REWRITE_SLOW 255
struct rewrite_point {
    uint8_t text[15];
    uint8_t length; /* REWRITE_SLOW: it depends on its neighbors, or is too long */
};

/* Those of code points below 0x10000, in pages by their upper byte, which are filled when they are
 * first needed. All zero at first. */
#define REWRITE_PAGES 256
struct rewrite_points {
    struct rewrite_point *pages[REWRITE_PAGES];
};
void rewrite_points_clear(struct rewrite_points *points);

/* Scratch memory, one per thread. All zero at first. */
struct rewriting {
    struct text_buffer texts[2];
    struct nfc nfc;
    const struct rewrite *bert; /* the first REWRITE_BERT, to which the points belong */
    struct rewrite_points points;
};
void rewriting_clear(struct rewriting *rewriting);

/* Rewrite a text; '*text' and '*length' are then those of the result, which is in 'rewriting' or,
 * if nothing changes, the original. Returns 0, or -1 if the result has 4 GiB or more. */
int rewrites_run(const struct rewrites *rewrites, struct rewriting *rewriting, const uint8_t **text,
                 size_t *length);

/* Within rewrite*.c. 'points' belong to this rewrite, or are NULL, which is slower. */
void rewrite_bert(const struct rewrite *rewrite, struct rewrite_points *points, const uint8_t *text,
                  size_t length, struct text_buffer *out);

#endif
