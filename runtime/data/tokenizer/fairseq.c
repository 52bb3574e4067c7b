/* SPDX-License-Identifier: Apache-2.0 */
/* fairseq's tokenizers: FairseqWords, an id for each word of dict.txt, and FairseqBPE, GPT-2's BPE
 * with RoBERTa's ids. */
#include "fairseq.h"
#include "base/core/locate.h"
#include "tokenizer_private.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

/* The words are the vocabulary. */
static int set_vocabulary(struct tokenizer *tokenizer, const struct fairseq_dict *dict,
                          struct error *err)
{
    for (size_t id = 0; id < dict->words.count; id++) {
        int special = id < FAIRSEQ_SPECIALS || id == dict->mask;

        if (vocabulary_set(&tokenizer->vocabulary, (int64_t)id, word_table_text(&dict->words, id),
                           dict->words.entries[id].length,
                           special ? VOCABULARY_SPECIAL : VOCABULARY_TOKEN, err) < 0)
            return -1;
    }
    return 0;
}

static void set_specials(struct tokenizer *tokenizer, const struct fairseq_dict *dict)
{
    tokenizer->bos = FAIRSEQ_BOS;
    tokenizer->eos = tokenizer->eod = FAIRSEQ_EOS;
    tokenizer->vocab_size = (int64_t)dict->words.count;
    tokenizer->written = (int64_t)dict->written;
}

int load_fairseq_words(struct tokenizer *tokenizer, struct error *err)
{
    const char *path = tokenizer->config.vocab_file;

    tokenizer->dict = xcalloc(1, sizeof(*tokenizer->dict));
    if (!path)
        return error_set_code(
            err, ERROR_USAGE,
            "FairseqWords needs a dictionary, fairseq's dict.txt; name it with --vocab-file");
    if (fairseq_dict_read(tokenizer->dict, path, err) < 0 ||
        set_vocabulary(tokenizer, tokenizer->dict, err) < 0)
        return -1;
    tokenizer->model = MODEL_WORDS;
    tokenizer->decode = DECODE_WORDPIECE;
    set_specials(tokenizer, tokenizer->dict);
    return 0;
}

/* GPT-2's number in a word of dict.txt, or -1. */
static int64_t gpt2_id(const char *word, size_t length)
{
    int64_t id = 0;

    if (length == 0 || length > 9)
        return -1;
    for (size_t i = 0; i < length; i++) {
        if (word[i] < '0' || word[i] > '9')
            return -1;
        id = 10 * id + (word[i] - '0');
    }
    return id;
}

/* From GPT-2's ids to those of dict.txt; -1 where it has none. */
static int make_map(struct tokenizer *tokenizer, const struct fairseq_dict *dict, const char *path,
                    struct error *err)
{
    size_t count = dict->words.count;

    tokenizer->map = xcalloc(count, sizeof(*tokenizer->map));
    tokenizer->map_count = count;
    for (size_t i = 0; i < count; i++)
        tokenizer->map[i] = -1;
    for (size_t id = FAIRSEQ_SPECIALS; id < count; id++) {
        const char *word = word_table_text(&dict->words, id);
        size_t length = dict->words.entries[id].length;
        int64_t from = gpt2_id(word, length);
        int made_up = length > 10 && memcmp(word, "madeupword", 10) == 0;

        if (from >= (int64_t)count)
            return error_set(err,
                             "%s, line %zu: id %lld is too large for a dictionary of %zu entries; "
                             "copy the whole dict.txt again",
                             path, id - FAIRSEQ_SPECIALS + 1, (long long)from, count);
        if (from >= 0)
            tokenizer->map[from] = (int64_t)id;
        else if (!made_up && id != dict->mask)
            return error_set(err,
                             "%s, line %zu: \"%.*s\" is not one of GPT-2's ids; for a dictionary "
                             "of words use --tokenizer-type FairseqWords",
                             path, id - FAIRSEQ_SPECIALS + 1, (int)(length < 40 ? length : 40),
                             word);
    }
    return 0;
}

/* Enter the entries that are not BPE tokens: specials, fillers, <mask>. */
static int set_others(struct tokenizer *tokenizer, const struct fairseq_dict *dict,
                      struct error *err)
{
    for (size_t id = 0; id < dict->words.count; id++) {
        const char *word = word_table_text(&dict->words, id);
        size_t length = dict->words.entries[id].length;

        if ((id < FAIRSEQ_SPECIALS || gpt2_id(word, length) < 0) &&
            vocabulary_set(&tokenizer->vocabulary, (int64_t)id, word, length, VOCABULARY_SPECIAL,
                           err) < 0)
            return -1;
    }
    return 0;
}

int load_fairseq_bpe(struct tokenizer *tokenizer, struct error *err)
{
    char own[4096];
    const char *path = tokenizer->config.vocab_file;
    struct fairseq_dict dict;
    int rc;

    if (tokenizer->config.merge_file)
        return error_set_code(err, ERROR_USAGE,
                              "FairseqBPE always uses GPT-2's merges; drop --merge-file");
    if (!path && locate_data("gpt2/dict.txt", own, sizeof(own), err) < 0)
        return -1;
    path = path ? path : own;
    rc = fairseq_dict_read(&dict, path, err);
    if (rc == 0)
        rc = make_map(tokenizer, &dict, path, err);
    if (rc == 0 && set_others(tokenizer, &dict, err) < 0)
        rc = error_prefix(err, "%s", path);
    if (rc == 0) {
        /* fairseq treats special tokens in texts as plain text. */
        tokenizer->config.vocab_file = NULL;
        tokenizer->config.special_as_text = 1;
        rc = load_gpt2(tokenizer, err);
        if (rc < 0)
            error_prefix(err, "%s", path); /* it lacks what GPT-2 needs */
        set_specials(tokenizer, &dict);
    }
    fairseq_dict_clear(&dict);
    return rc;
}

void words_encode(const struct tokenizer *tokenizer, const char *text, size_t length,
                  struct token_buffer *out)
{
    const char *word;
    size_t at = 0, size;

    while ((size = word_next(text, length, &at, &word)) > 0) {
        size_t id = word_table_find(&tokenizer->dict->words, word, size);

        /* A <mask> that the file lists is a word; otherwise the training adds it, later. */
        if (id == WORD_NONE || id >= tokenizer->dict->written)
            id = FAIRSEQ_UNK;
        token_buffer_put(out, (int64_t)id, tokenizer->id_size);
    }
}
