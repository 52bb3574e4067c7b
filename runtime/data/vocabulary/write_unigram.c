/* SPDX-License-Identifier: Apache-2.0 */
/* Unigram, with the settings of Llama's SentencePiece model: texts are not normalized, a space is
 * put before them, spaces are U+2581, and a character without a piece is written as its bytes. */
#include "config.h"
#include "data/curate/lines.h"
#include "write.h"

#include <stdio.h>
#include <string.h>

#define SPACE_MARK "\xE2\x96\x81"

/* In the order of their ids, before those of the user. */
static const char *const controls[] = {"<unk>", "<s>", "</s>"};
enum { CONTROLS = 3, BYTES = 256, MOST_SPECIALS = 1024 };

/* Of SentencePiece's file format. */
enum { PIECE_NORMAL = 1, PIECE_UNKNOWN = 2, PIECE_CONTROL = 3, PIECE_BYTE = 6 };

int64_t write_unigram_fixed(const struct learn_config *config)
{
    return CONTROLS + (int64_t)config->special_count + BYTES;
}

/* --- Protocol buffers ------------------------------------------------------------------------- */

static void put_varint(struct line_buffer *out, uint64_t value)
{
    unsigned char byte;

    for (; value >= 0x80; value >>= 7) {
        byte = (unsigned char)(value | 0x80);
        line_put(out, &byte, 1);
    }
    byte = (unsigned char)value;
    line_put(out, &byte, 1);
}

static void put_number(struct line_buffer *out, uint32_t field, uint64_t value)
{
    put_varint(out, (uint64_t)field << 3);
    put_varint(out, value);
}

static void put_bytes(struct line_buffer *out, uint32_t field, const void *data, size_t size)
{
    put_varint(out, (uint64_t)field << 3 | 2);
    put_varint(out, size);
    line_put(out, data, size);
}

static void put_float(struct line_buffer *out, uint32_t field, float value)
{
    put_varint(out, (uint64_t)field << 3 | 5);
    line_put(out, &value, sizeof(value));
}

static void put_piece(struct line_buffer *out, const char *text, size_t size, double score,
                      uint64_t type)
{
    struct line_buffer piece = {0};

    put_bytes(&piece, 1, text, size);
    put_float(&piece, 2, (float)score);
    if (type != PIECE_NORMAL)
        put_number(&piece, 3, type);
    put_bytes(out, 1, piece.data, piece.size);
    line_buffer_clear(&piece);
}

static void put_specs(struct line_buffer *out, const struct learn_config *config,
                      int64_t vocab_size)
{
    struct line_buffer trainer = {0}, normalizer = {0};

    put_number(&trainer, 3, 1); /* Unigram */
    put_number(&trainer, 4, (uint64_t)vocab_size);
    if (!config->split_scripts)
        put_number(&trainer, 21, 0); /* split_by_unicode_script */
    put_number(&trainer, 35, 1);     /* byte_fallback */
    put_number(&trainer, 40, 0);     /* ids of <unk>, <s>, </s>; no padding */
    put_number(&trainer, 41, 1);
    put_number(&trainer, 42, 2);
    put_number(&trainer, 43, UINT64_MAX);
    put_bytes(out, 2, trainer.data, trainer.size);
    put_bytes(&normalizer, 1, "identity", 8);
    put_number(&normalizer, 3, 1); /* add_dummy_prefix */
    put_number(&normalizer, 4, 0); /* remove_extra_whitespaces */
    put_number(&normalizer, 5, 1); /* escape_whitespaces */
    put_bytes(out, 3, normalizer.data, normalizer.size);
    line_buffer_clear(&trainer);
    line_buffer_clear(&normalizer);
}

/* --- Both files ------------------------------------------------------------------------------- */

/* Call put(out, text, size, score, type) for each id in order. */
static void each_piece(const struct learn_config *config, const struct unigram_learned *learned,
                       struct line_buffer *out,
                       void (*put)(struct line_buffer *out, const char *text, size_t size,
                                   double score, uint64_t type))
{
    for (size_t i = 0; i < CONTROLS; i++)
        put(out, controls[i], strlen(controls[i]), 0, i == 0 ? PIECE_UNKNOWN : PIECE_CONTROL);
    for (size_t i = 0; i < config->special_count; i++)
        put(out, config->specials[i], strlen(config->specials[i]), 0, PIECE_CONTROL);
    for (int byte = 0; byte < BYTES; byte++) {
        char text[8];

        snprintf(text, sizeof(text), "<0x%02X>", byte);
        put(out, text, strlen(text), 0, PIECE_BYTE);
    }
    for (size_t id = 0; id < learned->pieces.count; id++) {
        size_t size;
        const char *text = token_text(&learned->pieces, id, &size);

        put(out, text, size, learned->scores[id], PIECE_NORMAL);
    }
}

static void put_entry(struct line_buffer *out, const char *text, size_t size, double score,
                      uint64_t type)
{
    line_put_word(out, type == PIECE_UNKNOWN ? "\n      [" : ",\n      [");
    line_put_string(out, text, size);
    write_format(out, ", %.9g]", (double)(float)score);
}

static int write_model(const struct learn_config *config, const struct unigram_learned *learned,
                       struct error *err)
{
    struct line_buffer out = {0};

    each_piece(config, learned, &out, put_piece);
    put_specs(&out, config, write_unigram_fixed(config) + (int64_t)learned->pieces.count);
    return write_file(config, "tokenizer.model", &out, err);
}

static int write_json(const struct learn_config *config, const struct unigram_learned *learned,
                      struct error *err)
{
    const char *specials[MOST_SPECIALS];
    size_t count = 0;
    struct line_buffer out = {0};

    for (size_t i = 0; i < CONTROLS; i++)
        specials[count++] = controls[i];
    for (size_t i = 0; i < config->special_count && count < MOST_SPECIALS; i++)
        specials[count++] = config->specials[i];
    write_head(&out, specials, count);
    line_put_word(&out, "  \"normalizer\": null,\n"
                        "  \"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": "
                        "\"" SPACE_MARK "\", \"prepend_scheme\": \"always\", "
                        "\"split\": false},\n  \"post_processor\": null,\n"
                        "  \"decoder\": {\"type\": \"Sequence\", \"decoders\": [\n"
                        "    {\"type\": \"Replace\", \"pattern\": {\"String\": \"" SPACE_MARK
                        "\"}, \"content\": \" \"},\n"
                        "    {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"},\n"
                        "    {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, "
                        "\"stop\": 0}]},\n"
                        "  \"model\": {\n    \"type\": \"Unigram\",\n    \"unk_id\": 0,\n"
                        "    \"byte_fallback\": true,\n    \"vocab\": [");
    each_piece(config, learned, &out, put_entry);
    line_put_word(&out, "]\n  }\n}\n");
    return write_file(config, "tokenizer.json", &out, err);
}

int write_unigram_files(const struct learn_config *config, const struct unigram_learned *learned,
                        struct error *err)
{
    if (config->special_count > MOST_SPECIALS - CONTROLS)
        return error_set_code(err, ERROR_USAGE, "%zu special tokens are more than %d; use fewer",
                              config->special_count, MOST_SPECIALS - CONTROLS);
    return write_model(config, learned, err) < 0 ? -1 : write_json(config, learned, err);
}
