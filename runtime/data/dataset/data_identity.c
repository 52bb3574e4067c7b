/* SPDX-License-Identifier: Apache-2.0 */
#include "data_identity.h"
#include "lib/file.h"
#include "base/core/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ADVICE "remove it if another program wrote the pair, or tokenize the corpus again"

enum { FORMAT = 1, LIMIT = 65536 };

size_t data_identity_text(const struct data_identity *identity, int64_t bin_bytes,
                          int64_t idx_bytes, char text[DATA_IDENTITY_TEXT])
{
    const struct tokenizer_identity *tokenizer = &identity->tokenizer;
    char eod[24] = "null";

    if (tokenizer->eod >= 0)
        snprintf(eod, sizeof(eod), "%" PRId64, tokenizer->eod);
    return (size_t)snprintf(text, DATA_IDENTITY_TEXT,
                            "{\"format\": %d, \"tokenizer\": \"%s\", \"vocab_size\": %" PRId64
                            ", \"texts\": \"%016" PRIx64 "\", \"own_texts\": \"%016" PRIx64
                            "\", \"eod_id\": %s, \"append_eod\": %s, \"bin_bytes\": %" PRId64
                            ", \"idx_bytes\": %" PRId64 "}\n",
                            FORMAT, tokenizer->type, tokenizer->vocab_size, tokenizer->texts,
                            tokenizer->own, eod, identity->append_eod ? "true" : "false", bin_bytes,
                            idx_bytes);
}

static int integer_of(struct json_value root, const char *name, int64_t *number)
{
    struct json_value value;

    return json_member(root, name, &value) < 0 || json_integer(value, number) < 0 ? -1 : 0;
}

static int hash_of(struct json_value root, const char *name, uint64_t *hash)
{
    struct json_value value;
    const char *text;
    size_t length;
    char *end;

    if (json_member(root, name, &value) < 0 || json_string(value, &text, &length) < 0 ||
        length != 16)
        return -1;
    *hash = strtoull(text, &end, 16);
    return *end ? -1 : 0;
}

static int take(struct json_value root, struct data_identity *identity, int64_t sizes[2])
{
    struct tokenizer_identity *tokenizer = &identity->tokenizer;
    struct json_value value;
    const char *text;
    size_t length;
    int64_t format;

    if (integer_of(root, "format", &format) < 0 || format != FORMAT ||
        integer_of(root, "vocab_size", &tokenizer->vocab_size) < 0 ||
        integer_of(root, "bin_bytes", &sizes[0]) < 0 ||
        integer_of(root, "idx_bytes", &sizes[1]) < 0 ||
        json_member(root, "append_eod", &value) < 0 || json_bool(value, &identity->append_eod) < 0)
        return -1;
    if (json_member(root, "tokenizer", &value) < 0 || json_string(value, &text, &length) < 0 ||
        length == 0 || length >= sizeof(tokenizer->type) || strlen(text) != length)
        return -1;
    memcpy(tokenizer->type, text, length + 1);
    if (hash_of(root, "texts", &tokenizer->texts) < 0 ||
        hash_of(root, "own_texts", &tokenizer->own) < 0)
        return -1;
    tokenizer->eod = -1;
    if (json_member(root, "eod_id", &value) < 0)
        return -1;
    return json_type(value) == JSON_NULL ? 0 : json_integer(value, &tokenizer->eod);
}

/* Returns 1; 0 if there is no file, or no JSON; -1. */
static int read_file(const char *path, struct data_identity *identity, int64_t sizes[2],
                     struct error *err)
{
    struct json *json;
    int rc;

    memset(identity, 0, sizeof(*identity));
    if (access(path, F_OK) < 0 && errno == ENOENT)
        return 0;
    json = json_read("{}", 2, NULL);
    if (!json)
        return 0;
    json_destroy(json);
    json = json_read_file(path, LIMIT, err);
    if (!json)
        return -1;
    rc = take(json_root(json), identity, sizes);
    json_destroy(json);
    return rc < 0 ? error_set_code(err, ERROR_USAGE, "%s does not have the expected format", path)
                  : 1;
}

int data_identity_read(const struct indexed *corpus, struct data_identity *identity,
                       struct error *err)
{
    const struct indexed_info *info = indexed_info(corpus);
    char path[PATH_MAX];
    int64_t sizes[2];
    int rc;

    if (snprintf(path, sizeof(path), "%s." DATA_IDENTITY_ENDING, indexed_prefix(corpus)) >=
        (int)sizeof(path))
        return 0;
    rc = read_file(path, identity, sizes, err);
    if (rc < 0)
        return error_advise(err, ADVICE);
    if (rc > 0 && (sizes[0] != info->bin_size || sizes[1] != info->idx_size))
        return error_set_code(err, ERROR_USAGE,
                              "%s describes a pair of %" PRId64 " and %" PRId64
                              " bytes, but the .bin and .idx files have %" PRId64 " and %" PRId64
                              "; " ADVICE,
                              path, sizes[0], sizes[1], info->bin_size, info->idx_size);
    return rc;
}

int data_identity_may_replace(const char *path)
{
    struct data_identity ignored;
    int64_t sizes[2];

    return read_file(path, &ignored, sizes, NULL) >= 0;
}

/* fairseq's dictionary of a BPE lists numbers, which one type reads as words and one as tokens. */
static int both_fairseq(const struct tokenizer_identity *a, const struct tokenizer_identity *b)
{
    return strncmp(a->type, "Fairseq", 7) == 0 && strncmp(b->type, "Fairseq", 7) == 0 &&
           strcmp(a->type, b->type) != 0;
}

int data_identity_matches(const struct tokenizer_identity *a, const struct tokenizer_identity *b)
{
    return a->texts == 0 || b->texts == 0 || a->texts == b->texts ||
           (a->own != 0 && a->own == b->own) || both_fairseq(a, b);
}

void data_identity_words(const struct tokenizer_identity *identity, char words[DATA_IDENTITY_WORDS])
{
    if (identity->texts != 0)
        snprintf(words, DATA_IDENTITY_WORDS, "%.31s (%" PRId64 " tokens, hash %016" PRIx64 ")",
                 identity->type, identity->vocab_size, identity->texts);
    else
        snprintf(words, DATA_IDENTITY_WORDS, "%.31s (%" PRId64 " tokens)", identity->type,
                 identity->vocab_size);
}
