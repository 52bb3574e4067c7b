/* SPDX-License-Identifier: Apache-2.0 */
/* Rank files: tiktoken's text format (per line a token in base64 and its rank), in which Llama 3 is
 * distributed, and Megatron's JSON list of the same. */
#include "tokenizer_private.h"
#include "base64.h"
#include "base/core/file_lines.h"
#include "base/core/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

#define FILE_LIMIT (UINT64_C(1) << 28)

/* Enter a token under 'id'. */
static int enter_token(struct tokenizer *tokenizer, const char *text, size_t length, int64_t id,
                       struct error *err)
{
    uint8_t *bytes = xmalloc(length + 1);
    size_t count;
    int rc;

    count = base64_decode(text, length, bytes);
    if (count == SIZE_MAX)
        rc = error_set(err, "\"%.*s\" is not valid base64", (int)(length < 40 ? length : 40), text);
    else
        rc = vocabulary_set(&tokenizer->vocabulary, id, bytes, count, VOCABULARY_TOKEN, err);
    free(bytes);
    return rc;
}

/* One line: base64, a space, the rank. */
static int read_line(struct tokenizer *tokenizer, const char *line, size_t length,
                     struct error *err)
{
    const char *space = memchr(line, ' ', length);
    int64_t id = 0;

    if (!space || space == line || space + 1 == line + length)
        return error_set(err, "the line is not a token in base64, a space and its rank");
    for (const char *at = space + 1; at < line + length; at++) {
        if (*at < '0' || *at > '9' || id > INT32_MAX)
            return error_set(err, "the rank at the end of the line is not a whole number");
        id = id * 10 + (*at - '0');
    }
    return enter_token(tokenizer, line, (size_t)(space - line), id, err);
}

static int read_lines(struct tokenizer *tokenizer, const struct file_bytes *bytes,
                      struct error *err)
{
    struct file_lines lines = file_lines(bytes);

    while (file_next_line(&lines)) {
        file_line_drop_return(&lines);
        if (lines.length > 0 && read_line(tokenizer, lines.line, lines.length, err) < 0)
            return error_prefix(err, "%s, line %zu", tokenizer->config.model, lines.number);
    }
    return 0;
}

static int add_special(struct tokenizer *tokenizer, const char *name, int64_t id, struct error *err)
{
    if (vocabulary_set(&tokenizer->vocabulary, id, name, strlen(name), VOCABULARY_SPECIAL, err) < 0)
        return error_prefix(err, "%s: special token %s", tokenizer->config.model, name);
    if (!tokenizer->config.special_as_text &&
        specials_add(&tokenizer->specials, (const uint8_t *)name, strlen(name), (uint32_t)id, 0) <
            0)
        return trie_full(err);
    return 0;
}

/* Llama 3's 256 special tokens follow its ranks. Llama 3.1 gave names to some of the reserved ones.
 */
static int add_llama3_specials(struct tokenizer *tokenizer, struct error *err)
{
    static const struct {
        int at;
        int since; /* enum llama3_release */
        const char *name;
    } named[] = {
        {0, LLAMA_3_0, "<|begin_of_text|>"},
        {1, LLAMA_3_0, "<|end_of_text|>"},
        {4, LLAMA_3_1, "<|finetune_right_pad_id|>"},
        {6, LLAMA_3_0, "<|start_header_id|>"},
        {7, LLAMA_3_0, "<|end_header_id|>"},
        {8, LLAMA_3_1, "<|eom_id|>"},
        {9, LLAMA_3_0, "<|eot_id|>"},
        {10, LLAMA_3_1, "<|python_tag|>"},
    };
    int64_t first = (int64_t)tokenizer->vocabulary.count;
    size_t next = 0;
    int reserved = 0;

    for (int i = 0; i < 256; i++) {
        char name[64];

        while (next < sizeof(named) / sizeof(named[0]) &&
               (named[next].at < i || named[next].since > tokenizer->config.llama3_release))
            next++;
        if (next < sizeof(named) / sizeof(named[0]) && named[next].at == i)
            snprintf(name, sizeof(name), "%s", named[next++].name);
        else
            snprintf(name, sizeof(name), "<|reserved_special_token_%d|>", reserved++);
        if (add_special(tokenizer, name, first + i, err) < 0)
            return -1;
    }
    tokenizer->bos = first;
    tokenizer->eos = tokenizer->eod = first + 1;
    return 0;
}

/* Megatron's TikTokenizer puts 1000 special tokens first and keeps 131072 ids in all. */
#define MEGATRON_SPECIALS 1000
#define MEGATRON_IDS      131072

static int read_list(struct tokenizer *tokenizer, const struct json *json, struct error *err)
{
    static const char *const names[] = {"<unk>", "<s>",   "</s>", "<mask>",
                                        "<pad>", "<cls>", "<sep>"};
    struct json_iterator items;
    struct json_value item, member;
    const char *path = tokenizer->config.model, *text;
    int64_t rank, count = 0;
    size_t length;

    if (json_type(json_root(json)) != JSON_ARRAY || json_iterate(json_root(json), &items) < 0)
        return error_set(err,
                         "%s: the JSON text is not a list of tokens such as [{\"rank\": 0, "
                         "\"token_bytes\": \"AA==\"}, ...]",
                         path);
    while (json_next(&items, NULL, NULL, &item) && count < MEGATRON_IDS - MEGATRON_SPECIALS) {
        if (json_member(item, "rank", &member) < 0 || json_integer(member, &rank) < 0 ||
            rank != count || json_member(item, "token_bytes", &member) < 0 ||
            json_string(member, &text, &length) < 0)
            return error_set(
                err, "%s: item %lld of the list does not have \"rank\": %lld and \"token_bytes\"",
                path, (long long)count, (long long)count);
        if (enter_token(tokenizer, text, length, MEGATRON_SPECIALS + count, err) < 0)
            return error_prefix(err, "%s: item %lld", path, (long long)count);
        count++;
    }
    for (int i = 0; i < MEGATRON_SPECIALS; i++) {
        char name[64];

        if (i < (int)(sizeof(names) / sizeof(names[0])))
            snprintf(name, sizeof(name), "%s", names[i]);
        else
            snprintf(name, sizeof(name), "<SPECIAL_%d>", i);
        if (add_special(tokenizer, name, i, err) < 0)
            return -1;
    }
    tokenizer->bos = 1;
    tokenizer->eos = tokenizer->eod = 2;
    tokenizer->split.digits = 1;
    tokenizer->split.no_contractions = 1;
    return 0;
}

/* A rank is an id here: pairs merge in the order of their ids. */
static int add_pairs(struct tokenizer *tokenizer, struct error *err)
{
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    uint32_t *order = xcalloc(vocabulary->count + 1, sizeof(*order));
    size_t count = 0;
    int rc;

    for (uint32_t id = 0; id < vocabulary->count; id++)
        if (vocabulary->entries[id].kind == VOCABULARY_TOKEN)
            order[count++] = id;
    rc = bpe_add_all_pairs(&tokenizer->bpe, order, NULL, count, err);
    if (rc < 0)
        error_prefix(err, "%s", tokenizer->config.model);
    free(order);
    return rc;
}

static int read_file(struct tokenizer *tokenizer, struct error *err)
{
    const char *path = tokenizer->config.model;
    struct file_bytes bytes;
    struct json *json;
    int rc;

    if (file_read(path, FILE_LIMIT, &bytes, err) < 0)
        return -1;
    if (bytes.length > 0 && bytes.data[0] == '[') {
        json = json_read(bytes.data, bytes.length, err);
        rc = json ? read_list(tokenizer, json, err) : error_prefix(err, "%s", path);
        json_destroy(json);
    } else {
        rc = read_lines(tokenizer, &bytes, err);
        if (rc == 0)
            rc = add_llama3_specials(tokenizer, err);
    }
    file_bytes_clear(&bytes);
    return rc;
}

int load_tiktoken(struct tokenizer *tokenizer, struct error *err)
{
    const char *path = tokenizer->config.model, *pattern;

    if (!path)
        return error_set_code(err, ERROR_USAGE,
                              "%s needs a tiktoken vocabulary file; name it with --tokenizer-model",
                              tokenizer_type_name((enum tokenizer_type)tokenizer->config.type));
    tokenizer->split = (struct split_options){.rule = SPLIT_LLAMA3, .digits = 3};
    if (read_file(tokenizer, err) < 0)
        return -1;
    pattern = split_pattern(&tokenizer->split);
    if (steps_add(&tokenizer->steps, pattern, strlen(pattern), 0, STEP_ISOLATED, 0, 0, err) < 0)
        return -1;
    bpe_init(&tokenizer->bpe, BPE_BYTES);
    tokenizer->bpe.whole_words = 1;
    if (bpe_set_tokens(&tokenizer->bpe, &tokenizer->vocabulary, err) < 0)
        return error_prefix(err, "%s", path);
    tokenizer->vocab_size = (int64_t)tokenizer->vocabulary.count;
    return add_pairs(tokenizer, err);
}
