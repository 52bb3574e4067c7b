/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2's two files: vocab.json (tokens and ids) and merges.txt (pairs, lowest rank first). */
#include "tokenizer_private.h"
#include "base/core/file_lines.h"
#include "base/core/json.h"
#include "base/core/locate.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

#define FILE_LIMIT (UINT64_C(1) << 28)

/* Printable bytes represent themselves. The others, which are 0x00 to 0x20, 0x7F to 0xA0 and 0xAD,
 * are numbered from U+0100 on. */
uint32_t byte_level_character(uint8_t byte)
{
    return byte <= 0x20                   ? 0x100U + byte
           : byte >= 0x7F && byte <= 0xA0 ? 0x121U + byte - 0x7F
           : byte == 0xAD                 ? 0x143U
                                          : byte;
}

static int byte_of_character(uint32_t point)
{
    if (point >= 0x100)
        return point <= 0x120   ? (int)point - 0x100
               : point <= 0x142 ? (int)point - 0x121 + 0x7F
               : point == 0x143 ? 0xAD
                                : -1;
    return byte_level_character((uint8_t)point) == point ? (int)point : -1;
}

size_t byte_level_decode(const char *text, size_t length, uint8_t *out)
{
    const uint8_t *at = (const uint8_t *)text, *end = at + length;
    size_t count = 0;

    while (at < end) {
        uint32_t point;
        int byte;

        at += utf8_decode(at, end, &point);
        byte = byte_of_character(point);
        if (byte < 0)
            return SIZE_MAX;
        out[count++] = (uint8_t)byte;
    }
    return count;
}

/* FairseqBPE gives GPT-2's tokens other ids. */
static int set_token(struct tokenizer *tokenizer, int64_t id, const uint8_t *bytes, size_t count,
                     enum vocabulary_kind kind, struct error *err)
{
    if (tokenizer->map && (id < 0 || (size_t)id >= tokenizer->map_count || tokenizer->map[id] < 0))
        return error_set(err, "the dictionary has no line for GPT-2's id %lld", (long long)id);
    if (tokenizer->map)
        id = tokenizer->map[id];
    return vocabulary_set(&tokenizer->vocabulary, id, bytes, count, kind, err);
}

static int load_vocabulary(struct tokenizer *tokenizer, const char *path, struct error *err)
{
    struct json *json = json_read_file(path, FILE_LIMIT, err);
    struct json_iterator members;
    struct json_value value;
    const char *name;
    size_t length;
    int rc = -1;

    if (!json)
        return -1;
    if (json_type(json_root(json)) != JSON_OBJECT || json_iterate(json_root(json), &members) < 0) {
        error_set(
            err,
            "%s: the file is not a JSON object of tokens and their ids, such as {\"the\": 0, ...}",
            path);
        goto out;
    }
    while (json_next(&members, &name, &length, &value)) {
        uint8_t *bytes = xmalloc(length + 1);
        enum vocabulary_kind kind = VOCABULARY_TOKEN;
        size_t count = byte_level_decode(name, length, bytes);
        int64_t id;
        int failed;

        if (count == SIZE_MAX) {
            kind = VOCABULARY_SPECIAL;
            memcpy(bytes, name, length);
            count = length;
        }
        if (json_integer(value, &id) < 0) {
            free(bytes);
            error_set(err, "%s: the id of token \"%.40s\" is not an integer", path, name);
            goto out;
        }
        failed = set_token(tokenizer, id, bytes, count, kind, err);
        free(bytes);
        if (failed) {
            if (!tokenizer->map)
                error_prefix(err, "%s: token \"%.40s\"", path, name);
            goto out;
        }
    }
    rc = 0;
out:
    json_destroy(json);
    return rc;
}

/* One half of a merge as a symbol. */
static uint32_t find_half(const struct tokenizer *tokenizer, const char *text, size_t length)
{
    uint8_t bytes[4096];
    size_t count = length <= sizeof(bytes) ? byte_level_decode(text, length, bytes) : SIZE_MAX;

    if (count == SIZE_MAX || count == 0)
        return TRIE_NONE;
    return trie_find(&tokenizer->bpe.trie, bytes, count);
}

static int add_merge(struct tokenizer *tokenizer, const char *line, size_t length,
                     struct error *err)
{
    const char *space = memchr(line, ' ', length), *texts[2] = {line, space ? space + 1 : NULL};
    size_t first = space ? (size_t)(space - line) : 0, lengths[2] = {first, length - first - 1};
    uint32_t half[2];

    if (first == 0 || lengths[1] == 0 || memchr(texts[1], ' ', lengths[1]))
        return error_set(err, "the line is not two tokens with one space between them");
    for (int i = 0; i < 2; i++) {
        half[i] = find_half(tokenizer, texts[i], lengths[i]);
        if (half[i] == TRIE_NONE)
            return error_set(err, "token \"%.*s\" is not in the vocabulary",
                             (int)(lengths[i] < 40 ? lengths[i] : 40), texts[i]);
    }
    return bpe_add_pair(&tokenizer->bpe, half[0], half[1], err);
}

static int load_merges(struct tokenizer *tokenizer, const char *path, struct error *err)
{
    struct file_bytes bytes;
    struct file_lines lines;
    int rc = 0;

    if (file_read(path, FILE_LIMIT, &bytes, err) < 0)
        return -1;
    lines = file_lines(&bytes);
    while (rc == 0 && file_next_line(&lines)) {
        file_line_drop_return(&lines);
        if (lines.length > 0 && !(lines.number == 1 && strncmp(lines.line, "#version", 8) == 0))
            rc = add_merge(tokenizer, lines.line, lines.length, err);
        if (rc < 0)
            error_prefix(err, "%s, line %zu", path, lines.number);
    }
    file_bytes_clear(&bytes);
    return rc;
}

/* <|endoftext|> is a special token, in texts too unless special tokens are treated as text. */
static int find_end_of_text(struct tokenizer *tokenizer, const char *path, struct error *err)
{
    static const char name[] = "<|endoftext|>";
    uint32_t id = trie_find(&tokenizer->bpe.trie, (const uint8_t *)name, sizeof(name) - 1);

    if (id == TRIE_NONE)
        return error_set(err, "%s: the end-of-document token %s is missing", path, name);
    tokenizer->eod = tokenizer->bos = tokenizer->eos = id;
    if (tokenizer->config.special_as_text)
        return 0;
    specials_add(&tokenizer->specials, (const uint8_t *)name, sizeof(name) - 1, id, 0);
    return 0;
}

int load_gpt2(struct tokenizer *tokenizer, struct error *err)
{
    char own[2][4096];
    const char *vocabulary = tokenizer->config.vocab_file, *merges = tokenizer->config.merge_file;

    if (!vocabulary != !merges)
        return error_set_code(err, ERROR_USAGE,
                              "the %s must be used together with the %s; use both --vocab-file and "
                              "--merge-file, or neither for GPT-2's files",
                              vocabulary ? "vocabulary file" : "merge file",
                              vocabulary ? "merge file" : "vocabulary file");
    if (!vocabulary) {
        if (locate_data("gpt2/vocab.json", own[0], sizeof(own[0]), err) < 0 ||
            locate_data("gpt2/merges.txt", own[1], sizeof(own[1]), err) < 0)
            return -1;
        vocabulary = own[0];
        merges = own[1];
    }
    tokenizer->split = (struct split_options){.rule = SPLIT_GPT2};
    if (load_vocabulary(tokenizer, vocabulary, err) < 0)
        return -1;
    bpe_init(&tokenizer->bpe, BPE_BYTES);
    if (bpe_set_tokens(&tokenizer->bpe, &tokenizer->vocabulary, err) < 0)
        return error_prefix(err, "%s", vocabulary);
    if (load_merges(tokenizer, merges, err) < 0 || find_end_of_text(tokenizer, vocabulary, err) < 0)
        return -1;
    tokenizer->vocab_size = (int64_t)tokenizer->vocabulary.count;
    return 0;
}
