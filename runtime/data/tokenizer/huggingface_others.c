/* SPDX-License-Identifier: Apache-2.0 */
/* The models WordPiece and Unigram of a tokenizer.json. */
#include "huggingface.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/list.h"

#define LONGEST 100 /* characters of a word, if the model does not say */

int huggingface_read_wordpiece(struct pipeline *pipeline, struct json_value model,
                               struct error *err)
{
    struct tokenizer *tokenizer = pipeline->tokenizer;
    const char *prefix = "##", *unknown = "[UNK]";
    size_t prefix_length = 2, unknown_length = 5;
    struct json_value value;
    int64_t longest = LONGEST;

    if (json_member(model, "continuing_subword_prefix", &value) == 0)
        json_string(value, &prefix, &prefix_length);
    if (json_member(model, "unk_token", &value) == 0)
        json_string(value, &unknown, &unknown_length);
    if (json_member(model, "max_input_chars_per_word", &value) == 0)
        json_integer(value, &longest);
    if (huggingface_read_vocabulary(pipeline, model, err) < 0)
        return -1;
    if (wordpiece_init(&tokenizer->wordpiece, &tokenizer->vocabulary, prefix, prefix_length, err) <
        0)
        return error_prefix(err, "%s", pipeline->path);
    tokenizer->wordpiece.longest = longest > 0 ? (size_t)longest : 0;
    tokenizer->wordpiece.unknown =
        wordpiece_find(&tokenizer->wordpiece, (const uint8_t *)unknown, unknown_length);
    if (tokenizer->wordpiece.unknown == WORDPIECE_NONE)
        return error_set(err, "%s: unk_token \"%.40s\" is not in the vocabulary", pipeline->path,
                         unknown);
    return 0;
}

/* By id. */
struct scores {
    double *items;
    size_t count, room;
};

/* One entry: a piece and its score. */
static int enter_piece(struct pipeline *pipeline, struct json_value entry, int64_t id,
                       double *score, struct error *err)
{
    struct json_iterator iterator;
    struct json_value value;
    const char *text;
    size_t length;

    if (json_iterate(entry, &iterator) < 0 || !json_next(&iterator, NULL, NULL, &value) ||
        json_string(value, &text, &length) < 0 || !json_next(&iterator, NULL, NULL, &value) ||
        json_real(value, score) < 0 || !isfinite(*score))
        return error_set(
            err,
            "%s: entry %lld of \"vocab\" is not a piece and its score, such as [\"the\", -3.5]",
            pipeline->path, (long long)id);
    if (huggingface_enter_token(pipeline, text, length, id, err) < 0)
        return error_prefix(err, "%s: piece \"%.40s\"", pipeline->path, text);
    return 0;
}

static int enter_pieces(struct pipeline *pipeline, struct json_value model, struct scores *scores,
                        struct error *err)
{
    struct json_value vocabulary, entry;
    struct json_iterator iterator;

    if (json_member(model, "vocab", &vocabulary) < 0 || json_type(vocabulary) != JSON_ARRAY ||
        json_iterate(vocabulary, &iterator) < 0)
        return error_set(err, "%s: the model has no \"vocab\"", pipeline->path);
    while (json_next(&iterator, NULL, NULL, &entry)) {
        int64_t id = (int64_t)scores->count;

        if (enter_piece(pipeline, entry, id, list_add(scores), err) < 0)
            return -1;
    }
    return 0;
}

static int set_unknown(struct pipeline *pipeline, struct json_value model, size_t count,
                       struct error *err)
{
    struct bpe *bpe = &pipeline->tokenizer->bpe;
    struct json_value value;
    int64_t unknown;

    if (json_member(model, "unk_id", &value) < 0 || json_integer(value, &unknown) < 0)
        return error_set(err,
                         "%s: a Unigram model without an unknown token (unk_id) is not "
                         "supported" OTHER_TOKENIZER,
                         pipeline->path);
    if (unknown < 0 || unknown >= (int64_t)count)
        return error_set(err, "%s: unk_id %lld is not in the vocabulary of %lld tokens",
                         pipeline->path, (long long)unknown, (long long)count);
    bpe->unknown_id = (uint32_t)unknown;
    bpe->unknown_bytes = pipeline->byte_fallback;
    return huggingface_check_bytes(pipeline, err);
}

/* A text that contains <0x0A> literally matches that piece, too. */
static int add_byte_texts(struct bpe *bpe)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];
        int length = snprintf(text, sizeof(text), "<0x%02X>", byte);

        if (bpe->byte_ids[byte] != BPE_NONE &&
            bpe_add_text(bpe, (const uint8_t *)text, (size_t)length, bpe->byte_ids[byte]) < 0)
            return -1;
    }
    return 0;
}

int huggingface_read_unigram(struct pipeline *pipeline, struct json_value model, struct error *err)
{
    struct tokenizer *tokenizer = pipeline->tokenizer;
    struct scores scores = {0};
    double lowest = INFINITY;
    int rc = -1;

    bpe_init(&tokenizer->bpe, BPE_CHARACTERS);
    memset(tokenizer->bpe.byte_ids, 0xFF, sizeof(tokenizer->bpe.byte_ids));
    pipeline->byte_fallback = flag_is(model, "byte_fallback", 0);
    tokenizer->merge_unknown = !pipeline->byte_fallback;
    if (enter_pieces(pipeline, model, &scores, err) < 0 ||
        set_unknown(pipeline, model, scores.count, err) < 0)
        goto out;
    if (bpe_set_tokens(&tokenizer->bpe, &tokenizer->vocabulary, err) < 0) {
        error_prefix(err, "%s", pipeline->path);
        goto out;
    }
    if (add_byte_texts(&tokenizer->bpe) < 0) {
        trie_full(err);
        goto out;
    }
    if (huggingface_read_scores(pipeline, scores.items, scores.count) < 0) {
        error_set(
            err, "%s: \"model\" or \"vocab\" written with escapes is not supported" OTHER_TOKENIZER,
            pipeline->path);
        goto out;
    }
    for (size_t id = 0; id < scores.count; id++)
        lowest = fmin(lowest, scores.items[id]);
    tokenizer->unigram.unknown_score = lowest - 10;
    /* A sum extends over a word and what follows it up to the next space. */
    tokenizer->unigram.from_space =
        tokenizer->cut_spaces &&
        trie_find(&tokenizer->bpe.trie, (const uint8_t *)" ", 1) != TRIE_NONE;
    tokenizer->unigram.whole = !tokenizer->cut_spaces || tokenizer->unigram.from_space;
    model_set_unigram(tokenizer, scores.items);
    rc = 0;
out:
    list_free(&scores);
    return rc;
}
