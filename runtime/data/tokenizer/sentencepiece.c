/* SPDX-License-Identifier: Apache-2.0 */
/* A SentencePiece model: a protocol buffer of pieces with scores, of how it was trained and of how
 * texts are normalized. */
#include "tokenizer_private.h"
#include "lib/file.h"
#include "protobuf.h"
#include "unicode.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/list.h"

#define FILE_LIMIT (UINT64_C(1) << 28)

enum piece_type {
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN,
    PIECE_CONTROL,
    PIECE_USER,
    PIECE_UNUSED,
    PIECE_BYTE
};

enum { MODEL_TYPE_UNIGRAM = 1, MODEL_TYPE_BPE = 2 };

/* What Unigram needs of a piece. */
struct scored {
    float score;
    uint32_t user_length; /* of a user-defined piece, in bytes */
};

struct model {
    struct tokenizer *tokenizer;
    const char *path;
    LIST(struct scored) pieces;
    float lowest; /* score of a normal piece */
    uint64_t model_type;
    int byte_fallback;
    int escapes; /* spaces are written as U+2581 */
    struct protobuf_field unknown, bos, eos, map;
};

static int broken(const struct model *model, const struct protobuf *at, const char *what,
                  struct error *err)
{
    return error_set(err, "%s is not a SentencePiece model: %s at byte %td", model->path, what,
                     at->at - at->start);
}

/* A piece as bytes, U+2581 as a space. */
static size_t piece_text(const uint8_t *piece, size_t length, uint8_t *out)
{
    size_t made = 0;

    for (size_t i = 0; i < length; i++) {
        if (length - i >= 3 && memcmp(piece + i, "\xE2\x96\x81", 3) == 0) {
            out[made++] = ' ';
            i += 2;
        } else {
            out[made++] = piece[i];
        }
    }
    return made;
}

int byte_of_piece(const uint8_t *piece, size_t length)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *high, *low;

    if (length != 6 || memcmp(piece, "<0x", 3) != 0 || piece[5] != '>')
        return -1;
    high = piece[3] ? strchr(digits, piece[3]) : NULL;
    low = piece[4] ? strchr(digits, piece[4]) : NULL;
    return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

static int is_named(const struct protobuf_field *name, const char *usual, const uint8_t *piece,
                    size_t length)
{
    const void *wanted = name->data ? (const void *)name->data : usual;
    size_t wanted_length = name->data ? name->length : strlen(usual);

    return length == wanted_length && memcmp(piece, wanted, length) == 0;
}

static int add_user_piece(struct model *model, const uint8_t *raw, size_t raw_length,
                          const uint8_t *text, size_t length, uint32_t id, struct error *err)
{
    if (raw_length > NORMALIZER_LONGEST)
        return error_set(
            err,
            "%s: user-defined piece %u has %zu bytes; at most %d are supported" OTHER_TOKENIZER,
            model->path, id, raw_length, NORMALIZER_LONGEST);
    /* A piece with a plain space is kept by the normalizer, but then its spaces are marked, so it
     * is never matched. */
    if (normalizer_keep(&model->tokenizer->normalizer, raw, raw_length) < 0 ||
        (!memchr(raw, ' ', raw_length) && model->model_type != MODEL_TYPE_UNIGRAM &&
         specials_add(&model->tokenizer->kept, text, length, id, 0) < 0))
        return trie_full(err);
    return 0;
}

/* Enter one piece under the next id. */
static int enter_piece(struct model *model, const uint8_t *raw, size_t raw_length, float score,
                       uint64_t type, struct error *err)
{
    struct tokenizer *tokenizer = model->tokenizer;
    static const enum vocabulary_kind kinds[] = {
        [PIECE_NORMAL] = VOCABULARY_TOKEN,    [PIECE_UNKNOWN] = VOCABULARY_UNKNOWN,
        [PIECE_CONTROL] = VOCABULARY_CONTROL, [PIECE_USER] = VOCABULARY_SPECIAL,
        [PIECE_UNUSED] = VOCABULARY_SPECIAL,  [PIECE_BYTE] = VOCABULARY_BYTE,
    };
    uint32_t id = (uint32_t)tokenizer->vocabulary.count;
    enum vocabulary_kind kind;
    uint8_t *text;
    size_t length;
    int byte, rc = -1;

    if (type < PIECE_NORMAL || type > PIECE_BYTE ||
        (type == PIECE_UNUSED && model->model_type != MODEL_TYPE_UNIGRAM))
        return error_set(
            err, "%s: piece %u has type %llu%s, which is not supported" OTHER_TOKENIZER,
            model->path, id, (unsigned long long)type, type == PIECE_UNUSED ? " (UNUSED)" : "");
    if (raw_length == 0 || !utf8_valid(raw, raw_length))
        return error_set(err, "%s: piece %u is empty or not valid UTF-8", model->path, id);
    if (!isfinite(score))
        return error_set(err, "%s: the score of piece %u is NaN or infinite", model->path, id);
    text = xmalloc(raw_length);
    length = piece_text(raw, raw_length, text);
    if (type == PIECE_BYTE) {
        byte = byte_of_piece(raw, raw_length);
        if (byte < 0) {
            error_set(err, "%s: piece %u is of type BYTE, but its text is not <0x00> to <0xFF>",
                      model->path, id);
            goto out;
        }
        text[0] = (uint8_t)byte;
        length = 1;
        tokenizer->bpe.byte_ids[byte] = id;
    }
    if (type == PIECE_UNKNOWN && tokenizer->bpe.unknown_id != BPE_NONE) {
        error_set(
            err, "%s: pieces %u and %u are both the unknown token (<unk>), and only one is allowed",
            model->path, tokenizer->bpe.unknown_id, id);
        goto out;
    }
    if (type == PIECE_UNKNOWN)
        tokenizer->bpe.unknown_id = id;
    if (type == PIECE_USER && add_user_piece(model, raw, raw_length, text, length, id, err) < 0)
        goto out;
    if (type == PIECE_CONTROL && is_named(&model->bos, "<s>", raw, raw_length))
        tokenizer->bos = id;
    if (type == PIECE_CONTROL && is_named(&model->eos, "</s>", raw, raw_length))
        tokenizer->eos = id;
    *list_add(&model->pieces) =
        (struct scored){score, type == PIECE_USER ? (uint32_t)raw_length : 0};
    if (type == PIECE_NORMAL)
        model->lowest = fminf(model->lowest, score);
    /* Normalized texts contain no plain space, so a piece with one is never matched. */
    kind = kinds[type];
    if (type == PIECE_USER && model->model_type == MODEL_TYPE_UNIGRAM)
        kind = VOCABULARY_TOKEN;
    if (kind == VOCABULARY_TOKEN && memchr(raw, ' ', raw_length))
        kind = VOCABULARY_SPECIAL;
    rc = vocabulary_set(&tokenizer->vocabulary, id, text, length, kind, err);
    if (rc < 0)
        error_prefix(err, "%s", model->path);
out:
    free(text);
    return rc;
}

static int read_piece(struct model *model, const struct protobuf_field *message, struct error *err)
{
    struct protobuf state = protobuf_open(message->data, message->length);
    struct protobuf_field field, text = {0};
    float score = 0;
    uint64_t type = PIECE_NORMAL;
    size_t id = model->tokenizer->vocabulary.count;
    int rc;

    while ((rc = protobuf_next(&state, &field)) > 0) {
        if (field.number == 1 && field.type == PROTOBUF_BYTES)
            text = field;
        else if (field.number == 2 && field.type == PROTOBUF_FIXED32)
            memcpy(&score, field.data, 4);
        else if (field.number == 3 && field.type == PROTOBUF_VARINT)
            type = field.value;
    }
    if (rc < 0)
        return error_set(err, "%s is not a SentencePiece model: piece %zu is invalid", model->path,
                         id);
    return enter_piece(model, text.data, text.length, score, type, err);
}

static int read_trainer(struct model *model, const struct protobuf_field *message,
                        struct error *err)
{
    struct protobuf state = protobuf_open(message->data, message->length);
    struct protobuf_field field;
    int rc;

    while ((rc = protobuf_next(&state, &field)) > 0) {
        if (field.type == PROTOBUF_VARINT && field.number == 3)
            model->model_type = field.value;
        else if (field.type == PROTOBUF_VARINT && field.number == 24)
            model->tokenizer->normalizer.suffix = field.value != 0;
        else if (field.type == PROTOBUF_VARINT && field.number == 35)
            model->byte_fallback = field.value != 0;
        else if (field.type == PROTOBUF_BYTES && field.number == 44)
            model->unknown = field;
        else if (field.type == PROTOBUF_BYTES && field.number == 46)
            model->bos = field;
        else if (field.type == PROTOBUF_BYTES && field.number == 47)
            model->eos = field;
    }
    return rc < 0 ? broken(model, &state, "invalid trainer_spec", err) : 0;
}

static int read_normalizer(struct model *model, const struct protobuf_field *message,
                           struct error *err)
{
    struct protobuf state = protobuf_open(message->data, message->length);
    struct normalizer *normalizer = &model->tokenizer->normalizer;
    struct protobuf_field field;
    int rc;

    while ((rc = protobuf_next(&state, &field)) > 0) {
        if (field.type == PROTOBUF_BYTES && field.number == 2)
            model->map = field;
        else if (field.type == PROTOBUF_VARINT && field.number == 3)
            normalizer->prefix = field.value != 0;
        else if (field.type == PROTOBUF_VARINT && field.number == 4)
            normalizer->squeeze = field.value != 0;
        else if (field.type == PROTOBUF_VARINT && field.number == 5)
            model->escapes = field.value != 0;
    }
    return rc < 0 ? broken(model, &state, "invalid normalizer_spec", err) : 0;
}

/* The parts of the message may be in any order: read everything but the pieces first, then the
 * pieces. */
static int read_parts(struct model *model, const struct file_bytes *bytes, int pieces,
                      struct error *err)
{
    struct protobuf state = protobuf_open(bytes->data, bytes->length);
    struct protobuf_field field;
    int rc;

    while ((rc = protobuf_next(&state, &field)) > 0) {
        int failed = 0;

        if (field.type != PROTOBUF_BYTES)
            continue;
        if (field.number == 1 && pieces)
            failed = read_piece(model, &field, err);
        else if (field.number == 2 && !pieces)
            failed = read_trainer(model, &field, err);
        else if (field.number == 3 && !pieces)
            failed = read_normalizer(model, &field, err);
        if (failed)
            return -1;
    }
    return rc < 0 ? broken(model, &state, "an invalid field", err) : 0;
}

static int check_model(const struct model *model, struct error *err)
{
    static const char *const names[] = {"0", "UNIGRAM", "BPE", "WORD", "CHAR"};
    const struct bpe *bpe = &model->tokenizer->bpe;

    if (model->model_type != MODEL_TYPE_BPE && model->model_type != MODEL_TYPE_UNIGRAM)
        return error_set(err,
                         "%s: this SentencePiece model has type %s; only BPE and UNIGRAM are "
                         "supported" OTHER_TOKENIZER,
                         model->path, model->model_type < 5 ? names[model->model_type] : "unknown");
    if (!model->escapes)
        return error_set(err,
                         "%s: a SentencePiece model with escape_whitespaces=false is not "
                         "supported" OTHER_TOKENIZER,
                         model->path);
    if (model->tokenizer->vocabulary.count == 0)
        return error_set(err,
                         "%s: the SentencePiece model has an empty vocabulary; use another file",
                         model->path);
    for (unsigned byte = 0; model->byte_fallback && byte < 256; byte++)
        if (bpe->byte_ids[byte] == BPE_NONE)
            return error_set(err,
                             "%s: byte_fallback is true, but the vocabulary has no piece <0x%02X>",
                             model->path, byte);
    if (!model->byte_fallback && bpe->unknown_id == BPE_NONE)
        return error_set(err, "%s: the vocabulary has no unknown token (<unk>)", model->path);
    return 0;
}

struct ranked {
    float score;
    uint32_t id;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *left = a, *right = b;

    if (left->score != right->score)
        return left->score > right->score ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

/* Pieces in the order in which they merge: by score. Of pieces of one score the leftmost merges. */
static int add_pairs(struct model *model, struct error *err)
{
    struct vocabulary *vocabulary = &model->tokenizer->vocabulary;
    struct ranked *ranked = xcalloc(vocabulary->count, sizeof(*ranked));
    uint32_t *order = xcalloc(vocabulary->count, sizeof(*order));
    uint8_t *ties = xcalloc(vocabulary->count, 1);
    size_t count = 0;
    int rc;

    for (uint32_t id = 0; id < vocabulary->count; id++)
        if (vocabulary->entries[id].kind == VOCABULARY_TOKEN)
            ranked[count++] = (struct ranked){model->pieces.items[id].score, id};
    qsort(ranked, count, sizeof(*ranked), compare_ranked);
    for (size_t i = 0; i < count; i++) {
        order[i] = ranked[i].id;
        ties[i] = i > 0 && ranked[i].score == ranked[i - 1].score;
    }
    rc = bpe_add_all_pairs(&model->tokenizer->bpe, order, ties, count, err);
    if (rc < 0)
        error_prefix(err, "%s", model->path);
    free(ranked);
    free(order);
    free(ties);
    return rc;
}

/* Scores as sentencepiece 0.2.2 has them; a user-defined piece nearly always wins. */
static void set_unigram(struct model *model)
{
    struct tokenizer *tokenizer = model->tokenizer;
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    double *scores = xcalloc(vocabulary->count + 1, sizeof(*scores));

    for (size_t id = 0; id < vocabulary->count; id++) {
        const struct scored *piece = &model->pieces.items[id];

        if (vocabulary->entries[id].kind != VOCABULARY_TOKEN)
            scores[id] = NAN;
        else if (piece->user_length > 0)
            scores[id] = (float)((float)piece->user_length * 0.1F - 0.1);
        else
            scores[id] = piece->score;
    }
    tokenizer->unigram.single = tokenizer->unigram.whole = 1;
    tokenizer->unigram.unknown_score = model->lowest - 10.0F;
    model_set_unigram(tokenizer, scores);
    free(scores);
}

static int build(struct model *model, struct error *err)
{
    struct tokenizer *tokenizer = model->tokenizer;

    if (model->map.length > 0 &&
        normalizer_set_map(&tokenizer->normalizer, model->map.data, model->map.length, err) < 0)
        return error_prefix(err, "%s", model->path);
    if (bpe_set_tokens(&tokenizer->bpe, &tokenizer->vocabulary, err) < 0)
        return error_prefix(err, "%s", model->path);
    if (model->unknown.data)
        tokenizer->unknown_text =
            xstrndup((const char *)model->unknown.data, model->unknown.length);
    tokenizer->bpe.unknown_bytes = model->byte_fallback;
    tokenizer->merge_unknown = !model->byte_fallback;
    tokenizer->normalizer.active = 1;
    tokenizer->split = (struct split_options){.rule = SPLIT_CUTS};
    tokenizer->decode = DECODE_SENTENCEPIECE;
    tokenizer->eod = tokenizer->eos;
    tokenizer->vocab_size = (int64_t)tokenizer->vocabulary.count;
    if (model->model_type != MODEL_TYPE_UNIGRAM)
        return add_pairs(model, err);
    set_unigram(model);
    return 0;
}

int load_sentencepiece(struct tokenizer *tokenizer, struct error *err)
{
    struct model model = {.tokenizer = tokenizer,
                          .path = tokenizer->config.model,
                          .model_type = MODEL_TYPE_UNIGRAM,
                          .escapes = 1,
                          .lowest = FLT_MAX};
    struct file_bytes bytes;
    int rc = -1;

    if (!model.path)
        return error_set_code(err, ERROR_USAGE,
                              "%s needs a SentencePiece model; name it with --tokenizer-model",
                              tokenizer_type_name((enum tokenizer_type)tokenizer->config.type));
    if (file_read(model.path, FILE_LIMIT, &bytes, err) < 0)
        return -1;
    tokenizer->normalizer.prefix = tokenizer->normalizer.squeeze = 1; /* the format's defaults */
    bpe_init(&tokenizer->bpe, BPE_CHARACTERS);
    memset(tokenizer->bpe.byte_ids, 0xFF, sizeof(tokenizer->bpe.byte_ids));
    if (read_parts(&model, &bytes, 0, err) == 0 && read_parts(&model, &bytes, 1, err) == 0 &&
        check_model(&model, err) == 0)
        rc = build(&model, err);
    list_free(&model.pieces);
    file_bytes_clear(&bytes);
    return rc;
}
