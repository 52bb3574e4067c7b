/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of a tokenizer.json that are not part of its model: those added to the vocabulary, and
 * those that begin and end a sequence or a text. */
#include "huggingface.h"
#include "base/core/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

/* The id that an added token has in the vocabulary; -1: none. Only the stated id and those of
 * tokens that merges can produce are examined. */
static int64_t id_in_vocabulary(const struct pipeline *pipeline, const char *text, size_t length,
                                int64_t said)
{
    const struct tokenizer *tokenizer = pipeline->tokenizer;
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    uint8_t *bytes = xmalloc(length + 1);
    enum vocabulary_kind kind;
    const uint8_t *there;
    size_t count, size;
    uint32_t found = TRIE_NONE;

    kind = huggingface_token_entry(pipeline, text, length, bytes, &count);
    if (said >= 0 && (size_t)said < vocabulary->count &&
        vocabulary->entries[said].kind != VOCABULARY_ABSENT) {
        there = vocabulary_text(vocabulary, (size_t)said, &size);
        /* A token that was added before keeps its text. */
        if ((size == count && memcmp(there, bytes, size) == 0) ||
            (size == length && memcmp(there, text, size) == 0))
            found = (uint32_t)said;
    }
    if (found == TRIE_NONE && kind == VOCABULARY_TOKEN)
        found = tokenizer->model == MODEL_WORDPIECE
                    ? wordpiece_find(&tokenizer->wordpiece, bytes, count)
                    : trie_find(&tokenizer->bpe.trie, bytes, count);
    free(bytes);
    return found == TRIE_NONE ? -1 : (int64_t)found;
}

/* Hugging Face ignores the ids of added tokens: one that is in the vocabulary has its id there, and
 * others are numbered on after it, in the order of the file. */
static void give_added_id(struct pipeline *pipeline, const char *text, size_t length, int64_t *id)
{
    int64_t there = id_in_vocabulary(pipeline, text, length, *id);

    if (there < 0)
        there = pipeline->last_added >= pipeline->model_tokens ? pipeline->last_added + 1
                                                               : pipeline->model_tokens;
    if (there != *id)
        log_warning("%s: added token %.60s has id %lld, but Hugging Face gives it %lld, which is "
                    "used; correct the id in the file",
                    pipeline->path, text, (long long)*id, (long long)there);
    *id = there;
    if (*id > pipeline->last_added)
        pipeline->last_added = *id;
}

/* Can the token be found in normalized texts? */
static int check_normalized(const struct pipeline *pipeline, const char *text, struct error *err)
{
    const struct tokenizer *tokenizer = pipeline->tokenizer;

    if (!pipeline->normalizes || (tokenizer->rewrites.count > 0 && !tokenizer->normalizer.prefix &&
                                  (pipeline->metaspace || !pipeline->marks_spaces)))
        return 0;
    return error_set(err,
                     "%s: added token %.60s with normalized is not supported if there is a "
                     "normalizer" OTHER_TOKENIZER,
                     pipeline->path, text);
}

/* Find the token in texts; one with 'normalized' in normalized texts, as the normalizers write it.
 */
static int add_special(struct pipeline *pipeline, struct json_value token, const char *text,
                       size_t length, int64_t id, struct error *err)
{
    struct tokenizer *tokenizer = pipeline->tokenizer;
    int late = flag_is(token, "normalized", 0), rc;
    int strip = (flag_is(token, "lstrip", 0) ? SPECIAL_LEFT : 0) |
                (flag_is(token, "rstrip", 0) ? SPECIAL_RIGHT : 0);
    struct rewriting rewriting = {0};
    const uint8_t *written = (const uint8_t *)text;

    rc = late ? rewrites_run(&tokenizer->rewrites, &rewriting, &written, &length) : 0;
    if (rc == 0)
        rc = specials_add(late ? &tokenizer->late_specials : &tokenizer->specials, written, length,
                          (uint32_t)id, strip);
    rewriting_clear(&rewriting);
    return rc < 0 ? trie_full(err) : 0;
}

/* One entry of added_tokens: found in texts as a whole. */
static int add_token(struct pipeline *pipeline, struct json_value token, struct error *err)
{
    struct tokenizer *tokenizer = pipeline->tokenizer;
    struct vocabulary *vocabulary = &tokenizer->vocabulary;
    struct json_value member;
    const char *text;
    size_t length;
    int64_t id;
    int late;

    if (json_member(token, "content", &member) < 0 || json_string(member, &text, &length) < 0 ||
        json_member(token, "id", &member) < 0 || json_integer(member, &id) < 0 || length == 0)
        return error_set(err, "%s: an entry of \"added_tokens\" has no \"id\" or no \"content\"",
                         pipeline->path);
    if (id < 0)
        return error_set(err,
                         "%s: added token %.60s: its id is %lld, but token ids cannot be negative",
                         pipeline->path, text, (long long)id);
    if (flag_is(token, "single_word", 0))
        return error_set(err,
                         "%s: added token %.60s with single_word is not supported" OTHER_TOKENIZER,
                         pipeline->path, text);
    late = flag_is(token, "normalized", 0);
    if (late && check_normalized(pipeline, text, err) < 0)
        return -1;
    give_added_id(pipeline, text, length, &id);
    if (((size_t)id >= vocabulary->count || vocabulary->entries[id].kind == VOCABULARY_ABSENT) &&
        vocabulary_set(vocabulary, id, text, length, VOCABULARY_SPECIAL, err) < 0)
        return error_prefix(err, "%s: added token %.60s", pipeline->path, text);
    if (tokenizer->config.special_as_text && flag_is(token, "special", 0))
        return 0;
    return add_special(pipeline, token, text, length, id, err);
}

int huggingface_read_added_tokens(struct pipeline *pipeline, struct json_value root,
                                  struct error *err)
{
    struct json_value tokens, token;
    struct json_iterator iterator;

    pipeline->last_added = -1;
    pipeline->normalizes =
        json_member(root, "normalizer", &tokens) == 0 && json_type(tokens) != JSON_NULL;
    if (json_member(root, "added_tokens", &tokens) < 0 || json_type(tokens) != JSON_ARRAY ||
        json_iterate(tokens, &iterator) < 0)
        return 0;
    while (json_next(&iterator, NULL, NULL, &token))
        if (add_token(pipeline, token, err) < 0)
            return -1;
    return 0;
}

/* tokenizer_config.json names the tokens that begin and end a sequence, as text or as an object. */
static int64_t named_id(const struct vocabulary *vocabulary, struct json_value root,
                        const char *member_name)
{
    struct json_value member, content;
    const char *text;
    size_t length;

    if (json_member(root, member_name, &member) < 0)
        return -1;
    if (json_member(member, "content", &content) == 0)
        member = content;
    return json_string(member, &text, &length) == 0 ? vocabulary_find(vocabulary, text) : -1;
}

void huggingface_find_ends(struct pipeline *pipeline)
{
    static const char *const begins[] = {"<|begin_of_text|>", "<s>", "<bos>", "[CLS]"};
    static const char *const ends[] = {"<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>",
                                       "[SEP]"};
    struct tokenizer *tokenizer = pipeline->tokenizer;
    char path[4096 + 32], *slash;
    struct json *json;

    snprintf(path, sizeof(path), "%s", pipeline->path);
    slash = strrchr(path, '/');
    snprintf(slash ? slash + 1 : path, 32, "tokenizer_config.json");
    json = json_read_file(path, HUGGINGFACE_FILE_LIMIT, NULL);
    if (json) {
        tokenizer->bos = named_id(&tokenizer->vocabulary, json_root(json), "bos_token");
        tokenizer->eos = named_id(&tokenizer->vocabulary, json_root(json), "eos_token");
        json_destroy(json);
    } else {
        for (size_t i = 0; tokenizer->bos < 0 && i < sizeof(begins) / sizeof(begins[0]); i++)
            tokenizer->bos = vocabulary_find(&tokenizer->vocabulary, begins[i]);
        for (size_t i = 0; tokenizer->eos < 0 && i < sizeof(ends) / sizeof(ends[0]); i++)
            tokenizer->eos = vocabulary_find(&tokenizer->vocabulary, ends[i]);
    }
    tokenizer->eod = tokenizer->eos;
}
