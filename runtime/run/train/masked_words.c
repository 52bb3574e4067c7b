/* SPDX-License-Identifier: Apache-2.0 */
#include "masked_words.h"
#include "data/tokenizer/fairseq.h"
#include "base/core/locate.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>
#include <string.h>

static int load_counts(struct masked_words *words, const struct arguments *a, struct error *err)
{
    const char *path = a->data.tokenizer.vocab_file;
    struct fairseq_dict dict;

    if (!path)
        return error_set_code(
            err, ERROR_USAGE,
            "--freq-weighted-replacement needs --vocab-file, a dict.txt with counts; add it");
    words->counts = xcalloc((size_t)a->model.network.shape.vocabulary, sizeof(*words->counts));
    if (fairseq_dict_read(&dict, path, err) < 0) {
        fairseq_dict_clear(&dict);
        return -1;
    }
    for (size_t id = 0; id < dict.words.count && (int64_t)id < a->model.network.shape.vocabulary;
         id++)
        words->counts[id] = (double)dict.words.entries[id].count;
    fairseq_dict_clear(&dict);
    return 0;
}

/* A token begins a word if its text begins with a space (byte-level BPE, SentencePiece), or, in
 * WordPiece, unless it is written with ##. Special tokens always do. For Hugging Face's collator, a
 * token that begins within a character does, too: its offset is before the end of the last token.
 */
static int load_begins(struct masked_words *words, const struct arguments *a, struct error *err)
{
    int bert = a->data.tokenizer.type == TOKENIZER_BERT_LOWER_CASE ||
               a->data.tokenizer.type == TOKENIZER_BERT_CASE;
    struct tokenizer *tokenizer = tokenizer_create(&a->data.tokenizer, err);

    if (!tokenizer)
        return -1;
    words->begins = xcalloc((size_t)a->model.network.shape.vocabulary, 1);
    for (int64_t id = 0; id < a->model.network.shape.vocabulary; id++) {
        size_t length = 0;
        const char *text = tokenizer_piece(tokenizer, id, &length);
        int within = a->mlm.data.mask.rule == MASK_COLLATOR && length > 0 && (text[0] & 0xc0) == 0x80;
        int special = !text || id < a->mlm.data.mask.first_random ||
                      (length > 10 && memcmp(text, "madeupword", 10) == 0);

        words->begins[id] =
            special || within ||
            (bert ? length < 2 || memcmp(text, "##", 2) != 0 : length > 0 && text[0] == ' ');
    }
    tokenizer_destroy(tokenizer);
    return 0;
}

int masked_words_load(struct masked_words *words, const struct arguments *a, struct error *err)
{
    memset(words, 0, sizeof(*words));
    if (a->mlm.frequency && load_counts(words, a, err) < 0)
        return -1;
    return a->mlm.whole_words || a->mlm.data.bert ? load_begins(words, a, err) : 0;
}

void masked_words_clear(struct masked_words *words)
{
    free(words->counts);
    free(words->begins);
    memset(words, 0, sizeof(*words));
}
