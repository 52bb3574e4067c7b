/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-level BPE and WordPiece. */
#include "config.h"
#include "cutter.h"
#include "data/curate/lines.h"
#include "write.h"

#include <string.h>

static void put_token(struct line_buffer *out, const struct tokens *tokens, size_t id)
{
    size_t size;
    const char *text = token_text(tokens, id, &size);

    line_put_string(out, text, size);
}

/* {"token": id, ...} in the order of the ids. */
static void put_vocabulary(struct line_buffer *out, const struct tokens *tokens, const char *before)
{
    line_put_word(out, "{");
    for (size_t id = 0; id < tokens->count; id++) {
        line_put_word(out, id ? "," : "");
        line_put_word(out, before);
        put_token(out, tokens, id);
        write_format(out, ": %zu", id);
    }
    line_put_word(out, "}");
}

static void put_merges(struct line_buffer *out, const struct bpe_learned *learned)
{
    line_put_word(out, "[");
    for (size_t i = 0; i < learned->merges.count; i++) {
        line_put_word(out, i ? ",\n      [" : "\n      [");
        put_token(out, &learned->tokens, learned->merges.items[i].left);
        line_put_word(out, ", ");
        put_token(out, &learned->tokens, learned->merges.items[i].right);
        line_put_word(out, "]");
    }
    line_put_word(out, "]");
}

static int write_merges(const struct learn_config *config, const struct bpe_learned *learned,
                        struct error *err)
{
    struct line_buffer out = {0};

    line_put_word(&out, "#version: 0.2\n");
    for (size_t i = 0; i < learned->merges.count; i++) {
        size_t left_size, right_size;
        const char *left = token_text(&learned->tokens, learned->merges.items[i].left, &left_size);
        const char *right =
            token_text(&learned->tokens, learned->merges.items[i].right, &right_size);

        line_put(&out, left, left_size);
        line_put(&out, " ", 1);
        line_put(&out, right, right_size);
        line_put(&out, "\n", 1);
    }
    return write_file(config, "merges.txt", &out, err);
}

#define BYTE_LEVEL(regex)                                                             \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, " \
    "\"use_regex\": " regex "}"

static void put_splitter(struct line_buffer *out, const struct learn_config *config)
{
    const char *pattern = split_pattern(cutter_split(config));

    if (config->split == LEARN_GPT2) {
        line_put_word(out, BYTE_LEVEL("true"));
        return;
    }
    line_put_word(out, "{\"type\": \"Sequence\", \"pretokenizers\": [\n    {\"type\": \"Split\", "
                       "\"pattern\": {\"Regex\": ");
    line_put_string(out, pattern, strlen(pattern));
    line_put_word(
        out, "}, \"behavior\": \"Isolated\", \"invert\": false},\n    " BYTE_LEVEL("false") "]}");
}

static int write_byte_level(const struct learn_config *config, const struct bpe_learned *learned,
                            struct error *err)
{
    struct line_buffer out = {0};

    write_head(&out, config->specials, config->special_count);
    line_put_word(&out, "  \"normalizer\": null,\n  \"pre_tokenizer\": ");
    put_splitter(&out, config);
    line_put_word(&out,
                  ",\n  \"post_processor\": " BYTE_LEVEL("true") ",\n  \"decoder\": " BYTE_LEVEL(
                      "true") ",\n  \"model\": {\n    \"type\": \"BPE\",\n"
                              "    \"dropout\": null,\n    \"unk_token\": null,\n"
                              "    \"continuing_subword_prefix\": null,\n"
                              "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
                              "    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n"
                              "    \"vocab\": ");
    put_vocabulary(&out, &learned->tokens, "\n      ");
    line_put_word(&out, ",\n    \"merges\": ");
    put_merges(&out, learned);
    line_put_word(&out, "\n  }\n}\n");
    return write_file(config, "tokenizer.json", &out, err);
}

static int write_wordpiece(const struct learn_config *config, const struct bpe_learned *learned,
                           struct error *err)
{
    const char *lower = config->cased ? "false" : "true";
    struct line_buffer out = {0};

    write_head(&out, config->specials, config->special_count);
    write_format(&out,
                 "  \"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true, "
                 "\"handle_chinese_chars\": true, \"strip_accents\": %s, \"lowercase\": %s},\n",
                 lower, lower);
    line_put_word(&out, "  \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"},\n"
                        "  \"post_processor\": null,\n  \"decoder\": {\"type\": \"WordPiece\", "
                        "\"prefix\": \"" WORDPIECE_PREFIX "\", \"cleanup\": true},\n"
                        "  \"model\": {\n    \"type\": \"WordPiece\",\n"
                        "    \"unk_token\": \"[UNK]\",\n"
                        "    \"continuing_subword_prefix\": \"" WORDPIECE_PREFIX "\",\n"
                        "    \"max_input_chars_per_word\": 100,\n    \"vocab\": ");
    put_vocabulary(&out, &learned->tokens, "\n      ");
    line_put_word(&out, "\n  }\n}\n");
    return write_file(config, "tokenizer.json", &out, err);
}

static int write_vocab_txt(const struct learn_config *config, const struct bpe_learned *learned,
                           struct error *err)
{
    struct line_buffer out = {0};

    for (size_t id = 0; id < learned->tokens.count; id++) {
        size_t size;
        const char *text = token_text(&learned->tokens, id, &size);

        line_put(&out, text, size);
        line_put(&out, "\n", 1);
    }
    return write_file(config, "vocab.txt", &out, err);
}

int write_bpe_files(const struct learn_config *config, const struct bpe_learned *learned,
                    struct error *err)
{
    struct line_buffer out = {0};

    if (config->type == LEARN_WORDPIECE)
        return write_wordpiece(config, learned, err) < 0 ? -1
                                                         : write_vocab_txt(config, learned, err);
    put_vocabulary(&out, &learned->tokens, "");
    line_put_word(&out, "\n");
    if (write_file(config, "vocab.json", &out, err) < 0 || write_merges(config, learned, err) < 0)
        return -1;
    return write_byte_level(config, learned, err);
}
