/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2's two files: vocab.json (tokens and ids) and merges.txt (pairs, lowest rank first). */
#include "tokenizer_private.h"
#include "lib/file.h"
#include "base/core/json.h"
#include "base/core/locate.h"
#include "unicode.h"
#include "unsupported.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

#define FILE_LIMIT (UINT64_C(1) << 28)

/* Printable bytes represent themselves; the others are numbered from U+0100 on. */
static int byte_of_character(uint32_t point)
{
    uint32_t next = 0x100;

    if ((point >= 0x21 && point <= 0x7E) || (point >= 0xA1 && point <= 0xFF && point != 0xAD))
        return (int)point;
    for (int byte = 0; byte < 256; byte++) {
        if ((byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD))
            continue;
        if (next++ == point)
            return byte;
    }
    return -1;
}

uint32_t byte_level_character(uint8_t byte)
{
    uint32_t next = 256;

    if ((byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD))
        return byte;
    for (unsigned other = 0; other < byte; other++)
        next += !((other >= 0x21 && other <= 0x7E) || (other >= 0xA1 && other != 0xAD));
    return next;
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

/* Called for each merge, counted from 0: two tokens of the given lengths with a space between. */
typedef int merge_use(struct tokenizer *tokenizer, int64_t number, const char *line, size_t first,
                      size_t second, struct error *err);

static int add_merge(struct tokenizer *tokenizer, int64_t number, const char *line, size_t first,
                     size_t second, struct error *err)
{
    const char *space = line + first;
    uint32_t left, right;

    (void)number;
    left = find_half(tokenizer, line, first);
    if (left == TRIE_NONE)
        return error_set(err, "token \"%.*s\" is not in the vocabulary",
                         (int)(first < 40 ? first : 40), line);
    right = find_half(tokenizer, space + 1, second);
    if (right == TRIE_NONE)
        return error_set(err, "token \"%.*s\" is not in the vocabulary",
                         (int)(second < 40 ? second : 40), space + 1);
    return bpe_add_pair(&tokenizer->bpe, left, right, err);
}

/* The ids of GPT-2: 256 bytes, the merges in their order, then the end of a text. */
static int add_merged(struct tokenizer *tokenizer, int64_t number, const char *line, size_t first,
                      size_t second, struct error *err)
{
    uint8_t bytes[4096];
    size_t left, right;

    if (first + second > sizeof(bytes))
        return error_set(err,
                         "the two tokens have %zu bytes; at most %zu are supported" OTHER_TOKENIZER,
                         first + second, sizeof(bytes));
    left = byte_level_decode(line, first, bytes);
    right = left == SIZE_MAX ? left : byte_level_decode(line + first + 1, second, bytes + left);
    if (right == SIZE_MAX)
        return error_set(
            err, "a token contains a character that is not in the byte-level alphabet of GPT-2");
    return set_token(tokenizer, 256 + number, bytes, left + right, VOCABULARY_TOKEN, err);
}

/* Call 'use' for each line of a merge file. Returns the number of merges or -1. */
static int64_t each_merge(struct tokenizer *tokenizer, const char *path, merge_use *use,
                          struct error *err)
{
    struct file_bytes bytes;
    const char *line, *end;
    size_t number = 0;
    int64_t merges = 0;
    int rc = 0;

    if (file_read(path, FILE_LIMIT, &bytes, err) < 0)
        return -1;
    line = bytes.data;
    end = bytes.data + bytes.length;
    while (line < end && rc == 0) {
        const char *newline = memchr(line, '\n', (size_t)(end - line)), *space;
        size_t length = (size_t)((newline ? newline : end) - line), first;

        number++;
        if (length > 0 && line[length - 1] == '\r')
            length--;
        if (length > 0 && !(number == 1 && strncmp(line, "#version", 8) == 0)) {
            space = memchr(line, ' ', length);
            first = space ? (size_t)(space - line) : 0;
            if (first == 0 || first + 1 == length || memchr(space + 1, ' ', length - first - 1))
                rc = error_set(err, "the line is not two tokens with one space between them");
            else
                rc = use(tokenizer, merges++, line, first, length - first - 1, err);
            if (rc < 0)
                error_prefix(err, "%s, line %zu", path, number);
        }
        line = newline ? newline + 1 : end;
    }
    file_bytes_clear(&bytes);
    return rc < 0 ? -1 : merges;
}

/* The installed vocabulary follows from its merges, so it needs no JSON. */
static int derive_vocabulary(struct tokenizer *tokenizer, const char *merges, struct error *err)
{
    static const char end[] = "<|endoftext|>";
    int64_t id = 0, count;

    for (int other = 0; other < 2; other++)
        for (int i = 0; i < 256; i++) {
            uint8_t byte = (uint8_t)i;

            if ((byte_level_character(byte) != byte) == other &&
                set_token(tokenizer, id++, &byte, 1, VOCABULARY_TOKEN, err) < 0)
                return -1;
        }
    count = each_merge(tokenizer, merges, add_merged, err);
    return count < 0 ? -1
                     : set_token(tokenizer, 256 + count, (const uint8_t *)end, sizeof(end) - 1,
                                 VOCABULARY_TOKEN, err);
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
    char own[4096];
    const char *vocabulary = tokenizer->config.vocab_file, *merges = tokenizer->config.merge_file;

    if (!vocabulary != !merges) {
        error_set_code(err, ERROR_USAGE, "the %s must be used together with the %s",
                       vocabulary ? "vocabulary file" : "merge file",
                       vocabulary ? "merge file" : "vocabulary file");
        return error_append(
            err, "; use both --vocab-file and --merge-file, or neither for GPT-2's files");
    }
    if (!vocabulary) {
        if (locate_data("gpt2/merges.txt", own, sizeof(own), err) < 0)
            return -1;
        merges = own;
    }
    tokenizer->split = (struct split_options){.rule = SPLIT_GPT2};
    if ((vocabulary ? load_vocabulary(tokenizer, vocabulary, err)
                    : derive_vocabulary(tokenizer, merges, err)) < 0)
        return -1;
    bpe_init(&tokenizer->bpe, BPE_BYTES);
    if (!vocabulary)
        vocabulary = merges;
    if (model_set_tokens(tokenizer, err) < 0)
        return error_prefix(err, "%s", vocabulary);
    if (each_merge(tokenizer, merges, add_merge, err) < 0 ||
        find_end_of_text(tokenizer, vocabulary, err) < 0)
        return -1;
    tokenizer->vocab_size = (int64_t)tokenizer->vocabulary.count;
    return 0;
}
