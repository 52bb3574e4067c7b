/* SPDX-License-Identifier: Apache-2.0 */
/* The model of a tokenizer.json: byte-level BPE or SentencePiece-style BPE, as a vocabulary and
 * merges. */
#include "huggingface.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

/* Is a member there that is neither null, false, 0 nor empty? */
static int is_set(struct json_value object, const char *name)
{
    struct json_value member;
    const char *text;
    size_t length;
    double number;
    int flag;

    if (json_member(object, name, &member) < 0 || json_type(member) == JSON_NULL)
        return 0;
    if (json_string(member, &text, &length) == 0)
        return length > 0;
    if (json_bool(member, &flag) == 0)
        return flag;
    return json_real(member, &number) < 0 || number != 0;
}

/* A token as it is written, in the form of this folder: bytes, or characters with plain spaces.
 * Returns SIZE_MAX if it is not written in this form. */
static size_t token_bytes(const struct pipeline *pipeline, const char *text, size_t length,
                          uint8_t *out)
{
    size_t made = 0;

    if (pipeline->byte_level)
        return byte_level_decode(text, length, out);
    if (pipeline->tokenizer->model == MODEL_WORDPIECE) {
        memcpy(out, text, length);
        return length;
    }
    for (size_t i = 0; i < length; i++) {
        if (length - i >= 3 && memcmp(text + i, SPACE_MARK, 3) == 0) {
            out[made++] = ' ';
            i += 2;
        } else if (text[i] == ' ') {
            return SIZE_MAX; /* texts no longer contain plain spaces */
        } else {
            out[made++] = (uint8_t)text[i];
        }
    }
    return made;
}

enum vocabulary_kind huggingface_token_entry(const struct pipeline *pipeline, const char *text,
                                             size_t length, uint8_t *bytes, size_t *count)
{
    int byte = pipeline->byte_fallback ? byte_of_piece((const uint8_t *)text, length) : -1;

    if (byte >= 0) {
        bytes[0] = (uint8_t)byte;
        *count = 1;
        return VOCABULARY_BYTE;
    }
    *count = token_bytes(pipeline, text, length, bytes);
    if (*count != SIZE_MAX && *count > 0)
        return VOCABULARY_TOKEN;
    memcpy(bytes, text, length);
    *count = length;
    return VOCABULARY_SPECIAL;
}

int huggingface_enter_token(struct pipeline *pipeline, const char *text, size_t length, int64_t id,
                            struct error *err)
{
    struct tokenizer *tokenizer = pipeline->tokenizer;
    enum vocabulary_kind kind;
    uint8_t *bytes = xmalloc(length + 1);
    size_t count;
    int rc;

    kind = huggingface_token_entry(pipeline, text, length, bytes, &count);
    if (kind == VOCABULARY_BYTE)
        tokenizer->bpe.byte_ids[bytes[0]] = (uint32_t)id;
    rc = vocabulary_set(&tokenizer->vocabulary, id, bytes, count, kind, err);
    free(bytes);
    pipeline->model_tokens++;
    return rc;
}

int huggingface_read_vocabulary(struct pipeline *pipeline, struct json_value model,
                                struct error *err)
{
    struct json_value vocabulary, value;
    struct json_iterator iterator;
    const char *text;
    size_t length;
    int64_t id;

    if (json_member(model, "vocab", &vocabulary) < 0 || json_type(vocabulary) != JSON_OBJECT ||
        json_iterate(vocabulary, &iterator) < 0)
        return error_set(err, "%s: the model has no \"vocab\"", pipeline->path);
    while (json_next(&iterator, &text, &length, &value)) {
        if (json_integer(value, &id) < 0)
            return error_set(err, "%s: the id of token \"%.40s\" is not an integer", pipeline->path,
                             text);
        if (huggingface_enter_token(pipeline, text, length, id, err) < 0)
            return error_prefix(err, "%s: token \"%.40s\"", pipeline->path, text);
    }
    return 0;
}

int huggingface_check_bytes(const struct pipeline *pipeline, struct error *err)
{
    for (unsigned byte = 0; pipeline->byte_fallback && byte < 256; byte++)
        if (pipeline->tokenizer->bpe.byte_ids[byte] == BPE_NONE)
            return error_set(err,
                             "%s: byte_fallback is true, but the vocabulary has no token <0x%02X>",
                             pipeline->path, byte);
    return 0;
}

/* The token that unknown characters become, if the model names one. */
static int set_unknown(struct pipeline *pipeline, struct json_value model, struct error *err)
{
    struct bpe *bpe = &pipeline->tokenizer->bpe;
    struct json_value unknown, id;
    const char *text;
    int64_t number;
    size_t length;

    if (json_member(model, "unk_token", &unknown) < 0 || json_string(unknown, &text, &length) < 0)
        return 0;
    if (json_member(model, "vocab", &id) == 0 && json_member(id, text, &id) == 0 &&
        json_integer(id, &number) == 0)
        bpe->unknown_id = (uint32_t)number;
    if (!pipeline->byte_level && !pipeline->byte_fallback && bpe->unknown_id == BPE_NONE)
        return error_set(err, "%s: unk_token \"%.40s\" is not in the vocabulary", pipeline->path,
                         text);
    return 0;
}

static uint32_t find_half(const struct pipeline *pipeline, const char *text, size_t length)
{
    uint8_t bytes[4096];
    size_t count = length <= sizeof(bytes) ? token_bytes(pipeline, text, length, bytes) : SIZE_MAX;

    if (count == SIZE_MAX || count == 0)
        return TRIE_NONE;
    return trie_find(&pipeline->tokenizer->bpe.trie, bytes, count);
}

/* The two halves of a merge: "a b" or ["a", "b"]. Returns -1 if it is neither. */
static int halves(struct json_value merge, const char *text[2], size_t length[2])
{
    struct json_iterator iterator;
    struct json_value value;
    const char *space;

    if (json_string(merge, &text[0], &length[0]) == 0) {
        space = memchr(text[0], ' ', length[0]);
        if (!space)
            return -1;
        text[1] = space + 1;
        length[1] = length[0] - (size_t)(space + 1 - text[0]);
        length[0] = (size_t)(space - text[0]);
        return 0;
    }
    if (json_iterate(merge, &iterator) < 0)
        return -1;
    for (int i = 0; i < 2; i++)
        if (!json_next(&iterator, NULL, NULL, &value) ||
            json_string(value, &text[i], &length[i]) < 0)
            return -1;
    return 0;
}

static int read_merges(struct pipeline *pipeline, struct json_value model, struct error *err)
{
    struct bpe *bpe = &pipeline->tokenizer->bpe;
    struct json_value merges, merge;
    struct json_iterator iterator;
    const char *text[2];
    size_t length[2], number = 0;

    if (json_member(model, "merges", &merges) < 0 || json_type(merges) != JSON_ARRAY ||
        json_iterate(merges, &iterator) < 0)
        return error_set(err, "%s: the model has no \"merges\"", pipeline->path);
    for (; json_next(&iterator, NULL, NULL, &merge); number++) {
        uint32_t half[2];

        if (halves(merge, text, length) < 0)
            return error_set(err, "%s: merge %zu is not two tokens", pipeline->path, number);
        for (int i = 0; i < 2; i++) {
            half[i] = find_half(pipeline, text[i], length[i]);
            if (half[i] == TRIE_NONE)
                return error_set(err, "%s: merge %zu: token \"%.*s\" is not in the vocabulary",
                                 pipeline->path, number, (int)(length[i] < 40 ? length[i] : 40),
                                 text[i]);
        }
        if (bpe_add_pair(bpe, half[0], half[1], err) < 0)
            return error_prefix(err, "%s: merge %zu", pipeline->path, number);
    }
    return 0;
}

int huggingface_read_model(struct pipeline *pipeline, struct json_value root, struct error *err)
{
    static const char *const unknown[] = {"dropout", "continuing_subword_prefix",
                                          "end_of_word_suffix"};
    struct tokenizer *tokenizer = pipeline->tokenizer;
    struct json_value model;

    if (json_member(root, "model", &model) < 0 || json_type(model) != JSON_OBJECT)
        return error_set(err, "%s: the file has no \"model\"", pipeline->path);
    if (tokenizer->model == MODEL_WORDPIECE)
        return huggingface_read_wordpiece(pipeline, model, err);
    if (tokenizer->model == MODEL_UNIGRAM)
        return huggingface_read_unigram(pipeline, model, err);
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        if (is_set(model, unknown[i]))
            return error_set(err, "%s: model BPE with %s is not supported" OTHER_TOKENIZER,
                             pipeline->path, unknown[i]);
    bpe_init(&tokenizer->bpe, pipeline->byte_level ? BPE_BYTES : BPE_CHARACTERS);
    tokenizer->bpe.drops_missing = 1;
    memset(tokenizer->bpe.byte_ids, 0xFF, sizeof(tokenizer->bpe.byte_ids));
    pipeline->byte_fallback = !pipeline->byte_level && flag_is(model, "byte_fallback", 0);
    tokenizer->bpe.unknown_bytes = pipeline->byte_fallback;
    tokenizer->bpe.whole_words = flag_is(model, "ignore_merges", 0);
    tokenizer->merge_unknown = flag_is(model, "fuse_unk", 0) && !pipeline->byte_fallback;
    if (huggingface_read_vocabulary(pipeline, model, err) < 0 ||
        set_unknown(pipeline, model, err) < 0 || huggingface_check_bytes(pipeline, err) < 0)
        return -1;
    if (bpe_set_tokens(&tokenizer->bpe, &tokenizer->vocabulary, err) < 0)
        return error_prefix(err, "%s", pipeline->path);
    return read_merges(pipeline, model, err);
}
