/* SPDX-License-Identifier: Apache-2.0 */
/* fairseq's dictionaries. dict.txt has a line "WORD COUNT" for each id from 4 on; 0 to 3 are <s>,
 * <pad>, </s> and <unk>, and <mask> is the last id. */
#ifndef MEGATRON_FAIRSEQ_H
#define MEGATRON_FAIRSEQ_H

#include "lib/error.h"
#include "word_table.h"

enum { FAIRSEQ_BOS, FAIRSEQ_PAD, FAIRSEQ_EOS, FAIRSEQ_UNK, FAIRSEQ_SPECIALS };

/* The words by id, the four specials and <mask> included. All zero is an empty one. */
struct fairseq_dict {
    struct word_table words;
    size_t mask;    /* id of <mask> */
    size_t written; /* ids without a <mask> that the file does not have: what fairseq-preprocess
                       counts */
};

/* Read dict.txt. Returns 0, or -1 with 'err' naming the line. Clear in both cases. */
int fairseq_dict_read(struct fairseq_dict *dict, const char *path, struct error *err);
void fairseq_dict_clear(struct fairseq_dict *dict);

/* Which words of a corpus become a dictionary. */
struct fairseq_rules {
    int64_t threshold; /* the least count of a word */
    int64_t words;     /* the most ids, specials included; 0 or less: no limit */
    int64_t multiple;  /* of ids; filled up with madeupword0000 etc. */
};

/* Write dict.txt from the counts of a corpus: by falling count, ties by code point. The file is
 * complete or not there. */
int fairseq_dict_write(const struct word_table *counts, const struct fairseq_rules *rules,
                       const char *path, struct error *err);

#endif
