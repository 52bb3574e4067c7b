/* tokenizer.json of Hugging Face: byte-level BPE and SentencePiece-style BPE. It describes a
 * pipeline of components; one that is not known here is refused by name, never passed over.
 * Truncation and padding are not part of turning a text into ids, and are not looked at; nor is the
 * post-processor, unless asked for: Megatron's default (include_special_tokens is false). */
#include "model.h"
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_LIMIT (UINT64_C(1) << 30)
#define SPACE_MARK "\xE2\x96\x81" /* U+2581 */

#define TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define HEAD "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"

static const struct {
    const char *pattern;
    struct split_options options;
} patterns[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     {.rule = SPLIT_GPT2}},
    {HEAD "\\p{N}{1,3}" TAIL, {.rule = SPLIT_LLAMA3, .digits = 3}},
    {HEAD "\\p{N}" TAIL, {.rule = SPLIT_LLAMA3, .digits = 1}},
    {HEAD "\\p{N}+" TAIL, {.rule = SPLIT_LLAMA3, .digits = 0}},
};

struct pipeline {
    struct tokenizer *tokenizer;
    char path[4096];
    int byte_level;                   /* a ByteLevel component was there */
    int split_found;                  /* the words are cut by tokenizer->split */
    int marks_spaces;                 /* spaces become U+2581 */
    int metaspace;                    /* a Metaspace component was there */
    int byte_fallback;                /* of the model */
    int64_t model_tokens, last_added; /* entries of the vocabulary; the largest id added to them */
};

static int text_is(struct json_value object, const char *name, const char *wanted)
{
    struct json_value member;
    const char *text;
    size_t length;

    return json_member(object, name, &member) == 0 && json_string(member, &text, &length) == 0 &&
           length == strlen(wanted) && memcmp(text, wanted, length) == 0;
}

static int flag_is(struct json_value object, const char *name, int otherwise)
{
    struct json_value member;
    int flag;

    return json_member(object, name, &member) == 0 && json_bool(member, &flag) == 0 ? flag
                                                                                    : otherwise;
}

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

static int refuse(const struct pipeline *pipeline, const char *part, struct json_value component,
                  const char *what, struct error *err)
{
    struct json_value member;
    const char *type = "unnamed";
    size_t length;

    if (json_member(component, "type", &member) == 0)
        json_string(member, &type, &length);
    return error_set(err, "%s: %s %.60s%s is not supported", pipeline->path, part, type, what);
}

static int read_normalizer(struct pipeline *pipeline, struct json_value component,
                           struct error *err)
{
    struct normalizer *normalizer = &pipeline->tokenizer->normalizer;
    struct json_value members, pattern;
    struct json_iterator iterator;

    if (text_is(component, "type", "Sequence") &&
        json_member(component, "normalizers", &members) == 0 &&
        json_iterate(members, &iterator) == 0) {
        while (json_next(&iterator, NULL, NULL, &component))
            if (read_normalizer(pipeline, component, err) < 0)
                return -1;
        return 0;
    }
    if (text_is(component, "type", "Prepend") && text_is(component, "prepend", SPACE_MARK)) {
        if (normalizer->prefix)
            return refuse(pipeline, "normalizer", component, " for the second time", err);
        normalizer->prefix = NORMALIZER_PREFIX;
        return 0;
    }
    if (text_is(component, "type", "Replace") && text_is(component, "content", SPACE_MARK) &&
        json_member(component, "pattern", &pattern) == 0 && text_is(pattern, "String", " ")) {
        pipeline->marks_spaces = 1;
        return 0;
    }
    return refuse(pipeline, "normalizer", component, "", err);
}

static int read_split(struct pipeline *pipeline, struct json_value component, struct error *err)
{
    struct json_value pattern;

    if (pipeline->byte_level) /* its pattern would see characters that stand for bytes */
        return refuse(pipeline, "pre_tokenizer", component, " behind ByteLevel", err);
    if (json_member(component, "pattern", &pattern) == 0 &&
        text_is(component, "behavior", "Isolated") && !flag_is(component, "invert", 0) &&
        !pipeline->split_found)
        for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
            if (text_is(pattern, "Regex", patterns[i].pattern)) {
                pipeline->tokenizer->split = patterns[i].options;
                pipeline->split_found = 1;
                return 0;
            }
    return refuse(pipeline, "pre_tokenizer", component, " with this pattern", err);
}

/* When does Metaspace put a mark before a text? */
static int read_scheme(struct pipeline *pipeline, struct json_value component, int *prefix,
                       struct error *err)
{
    struct json_value member;

    if (json_member(component, "prepend_scheme", &member) < 0)
        *prefix = flag_is(component, "add_prefix_space", 1) ? NORMALIZER_MISSING : 0;
    else if (text_is(component, "prepend_scheme", "never"))
        *prefix = 0;
    else if (text_is(component, "prepend_scheme", "first"))
        *prefix = NORMALIZER_FIRST;
    else if (text_is(component, "prepend_scheme", "always"))
        *prefix = NORMALIZER_MISSING;
    else
        return refuse(pipeline, "pre_tokenizer", component, " with this prepend_scheme", err);
    if (*prefix && !flag_is(component, "add_prefix_space", 1))
        return refuse(pipeline, "pre_tokenizer", component,
                      " with a prepend_scheme but without add_prefix_space", err);
    return 0;
}

static int read_metaspace(struct pipeline *pipeline, struct json_value component, struct error *err)
{
    struct tokenizer *tokenizer = pipeline->tokenizer;
    int prefix = 0;

    if (pipeline->metaspace)
        return refuse(pipeline, "pre_tokenizer", component, " for the second time", err);
    if (!text_is(component, "replacement", SPACE_MARK))
        return refuse(pipeline, "pre_tokenizer", component, " with this replacement", err);
    if (read_scheme(pipeline, component, &prefix, err) < 0)
        return -1;
    /* What the normaliser has put before the text stays there, and then none is missing. */
    if (!tokenizer->normalizer.prefix)
        tokenizer->normalizer.prefix = prefix;
    tokenizer->cut_spaces = flag_is(component, "split", 1);
    pipeline->metaspace = pipeline->marks_spaces = 1;
    return 0;
}

static int read_pre_tokenizer(struct pipeline *pipeline, struct json_value component,
                              struct error *err)
{
    struct json_value members;
    struct json_iterator iterator;

    if (text_is(component, "type", "Sequence") &&
        json_member(component, "pretokenizers", &members) == 0 &&
        json_iterate(members, &iterator) == 0) {
        while (json_next(&iterator, NULL, NULL, &component))
            if (read_pre_tokenizer(pipeline, component, err) < 0)
                return -1;
        return 0;
    }
    if (text_is(component, "type", "Split"))
        return read_split(pipeline, component, err);
    if (text_is(component, "type", "Metaspace"))
        return read_metaspace(pipeline, component, err);
    if (!text_is(component, "type", "ByteLevel"))
        return refuse(pipeline, "pre_tokenizer", component, "", err);
    if (pipeline->byte_level)
        return refuse(pipeline, "pre_tokenizer", component, " for the second time", err);
    if (flag_is(component, "add_prefix_space", 1))
        return refuse(pipeline, "pre_tokenizer", component, " with add_prefix_space", err);
    if (flag_is(component, "use_regex", 1)) {
        if (pipeline->split_found)
            return refuse(pipeline, "pre_tokenizer", component, " with a second regex", err);
        pipeline->tokenizer->split = (struct split_options){.rule = SPLIT_GPT2};
        pipeline->split_found = 1;
    }
    pipeline->byte_level = 1;
    return 0;
}

/* That the model is of another kind says more than that its pipeline is, too. */
static int check_model(struct pipeline *pipeline, struct json_value root, struct error *err)
{
    struct json_value model, type;

    if (json_member(root, "model", &model) < 0 || json_type(model) != JSON_OBJECT ||
        json_member(model, "type", &type) < 0 || text_is(model, "type", "BPE"))
        return 0;
    return refuse(pipeline, "model", model, "", err);
}

static int read_components(struct pipeline *pipeline, struct json_value root, struct error *err)
{
    struct json_value component;

    if (json_member(root, "normalizer", &component) == 0 && json_type(component) != JSON_NULL &&
        read_normalizer(pipeline, component, err) < 0)
        return -1;
    if (json_member(root, "pre_tokenizer", &component) == 0 && json_type(component) != JSON_NULL &&
        read_pre_tokenizer(pipeline, component, err) < 0)
        return -1;
    if (pipeline->byte_level && (pipeline->marks_spaces || pipeline->tokenizer->normalizer.prefix))
        return error_set(err, "%s: ByteLevel together with %s is not supported", pipeline->path,
                         SPACE_MARK);
    if (!pipeline->byte_level && (!pipeline->marks_spaces || pipeline->split_found))
        return error_set(err,
                         "%s: a pipeline that neither works on bytes (ByteLevel) nor marks "
                         "spaces is not supported",
                         pipeline->path);
    if (pipeline->byte_level && !pipeline->split_found)
        pipeline->tokenizer->split = (struct split_options){.rule = SPLIT_CUTS};
    return 0;
}

/* A token as it is written, in the form of this folder: bytes, or characters with plain spaces.
 * Returns SIZE_MAX for one that stands for no bytes. */
static size_t token_bytes(const struct pipeline *pipeline, const char *text, size_t length,
                          uint8_t *out)
{
    size_t made = 0;

    if (pipeline->byte_level)
        return byte_level_decode(text, length, out);
    for (size_t i = 0; i < length; i++) {
        if (length - i >= 3 && memcmp(text + i, SPACE_MARK, 3) == 0) {
            out[made++] = ' ';
            i += 2;
        } else if (text[i] == ' ') {
            return SIZE_MAX; /* texts hold no plain space any more */
        } else {
            out[made++] = (uint8_t)text[i];
        }
    }
    return made;
}

static int hexadecimal(char digit)
{
    return digit >= '0' && digit <= '9'   ? digit - '0'
           : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                          : -1;
}

/* What the vocabulary holds for a token as it is written: 'bytes' has room for 'length'. */
static enum vocabulary_kind token_entry(const struct pipeline *pipeline, const char *text,
                                        size_t length, uint8_t *bytes, size_t *count)
{
    if (pipeline->byte_fallback && length == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>' &&
        hexadecimal(text[3]) >= 0 && hexadecimal(text[4]) >= 0) {
        bytes[0] = (uint8_t)(hexadecimal(text[3]) * 16 + hexadecimal(text[4]));
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

static int enter_token(struct pipeline *pipeline, const char *text, size_t length, int64_t id,
                       struct error *err)
{
    struct tokenizer *tokenizer = pipeline->tokenizer;
    enum vocabulary_kind kind;
    uint8_t *bytes = malloc(length + 1);
    size_t count;
    int rc;

    if (!bytes)
        return error_set(err, "out of memory for the vocabulary");
    kind = token_entry(pipeline, text, length, bytes, &count);
    if (kind == VOCABULARY_BYTE)
        tokenizer->bpe.byte_ids[bytes[0]] = (uint32_t)id;
    rc = vocabulary_set(&tokenizer->vocabulary, id, bytes, count, kind, err);
    free(bytes);
    pipeline->model_tokens++;
    return rc;
}

static int read_vocabulary(struct pipeline *pipeline, struct json_value model, struct error *err)
{
    struct json_value vocabulary, value, unknown;
    struct json_iterator iterator;
    const char *text, *unknown_text = NULL;
    size_t length, unknown_length = 0;
    int64_t id;

    if (json_member(model, "unk_token", &unknown) == 0)
        json_string(unknown, &unknown_text, &unknown_length);
    if (json_member(model, "vocab", &vocabulary) < 0 || json_type(vocabulary) != JSON_OBJECT ||
        json_iterate(vocabulary, &iterator) < 0)
        return error_set(err, "%s: the model has no \"vocab\"", pipeline->path);
    while (json_next(&iterator, &text, &length, &value)) {
        if (json_integer(value, &id) < 0)
            return error_set(err, "%s: the id of token \"%.40s\" is no whole number",
                             pipeline->path, text);
        if (enter_token(pipeline, text, length, id, err) < 0)
            return error_prefix(err, "%s: token \"%.40s\"", pipeline->path, text);
        if (unknown_text && length == unknown_length && memcmp(text, unknown_text, length) == 0)
            pipeline->tokenizer->bpe.unknown_id = (uint32_t)id;
    }
    if (unknown_text && !pipeline->byte_level && !pipeline->byte_fallback &&
        pipeline->tokenizer->bpe.unknown_id == BPE_NONE)
        return error_set(err, "%s: unk_token \"%.40s\" is not in the vocabulary", pipeline->path,
                         unknown_text);
    for (unsigned byte = 0; pipeline->byte_fallback && byte < 256; byte++)
        if (pipeline->tokenizer->bpe.byte_ids[byte] == BPE_NONE)
            return error_set(err, "%s: byte_fallback without a token <0x%02X>", pipeline->path,
                             byte);
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
            return error_set(err, "%s: merge %zu should be two tokens", pipeline->path, number);
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

static int read_model(struct pipeline *pipeline, struct json_value root, struct error *err)
{
    static const char *const unknown[] = {"dropout", "continuing_subword_prefix",
                                          "end_of_word_suffix"};
    struct tokenizer *tokenizer = pipeline->tokenizer;
    struct json_value model;

    if (json_member(root, "model", &model) < 0 || json_type(model) != JSON_OBJECT)
        return error_set(err, "%s: there is no \"model\"", pipeline->path);
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        if (is_set(model, unknown[i]))
            return error_set(err, "%s: model BPE with %s is not supported", pipeline->path,
                             unknown[i]);
    if (bpe_init(&tokenizer->bpe, pipeline->byte_level ? BPE_BYTES : BPE_CHARACTERS, err) < 0)
        return -1;
    memset(tokenizer->bpe.byte_ids, 0xFF, sizeof(tokenizer->bpe.byte_ids));
    pipeline->byte_fallback = !pipeline->byte_level && flag_is(model, "byte_fallback", 0);
    tokenizer->bpe.unknown_bytes = pipeline->byte_fallback;
    tokenizer->bpe.whole_words = flag_is(model, "ignore_merges", 0);
    tokenizer->merge_unknown = flag_is(model, "fuse_unk", 0) && !pipeline->byte_fallback;
    if (read_vocabulary(pipeline, model, err) < 0)
        return -1;
    if (model_set_tokens(tokenizer, err) < 0)
        return error_prefix(err, "%s", pipeline->path);
    return read_merges(pipeline, model, err);
}

/* The id that an added token has in the vocabulary; -1: it is not there, -2: memory is out. Only
 * the id that is said and those of tokens that merges can make are looked at. */
static int64_t id_in_vocabulary(const struct pipeline *pipeline, const char *text, size_t length,
                                int64_t said)
{
    const struct tokenizer *tokenizer = pipeline->tokenizer;
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    uint8_t *bytes = malloc(length + 1);
    enum vocabulary_kind kind;
    const uint8_t *there;
    size_t count, size;
    uint32_t found = TRIE_NONE;

    if (!bytes)
        return -2;
    kind = token_entry(pipeline, text, length, bytes, &count);
    if (said >= 0 && (size_t)said < vocabulary->count &&
        vocabulary->entries[said].kind != VOCABULARY_ABSENT) {
        there = vocabulary_text(vocabulary, (size_t)said, &size);
        /* One that was added before is kept as it is written. */
        if ((size == count && memcmp(there, bytes, size) == 0) ||
            (size == length && memcmp(there, text, size) == 0))
            found = (uint32_t)said;
    }
    if (found == TRIE_NONE && kind == VOCABULARY_TOKEN)
        found = trie_find(&tokenizer->bpe.trie, bytes, count);
    free(bytes);
    return found == TRIE_NONE ? -1 : (int64_t)found;
}

/* Hugging Face does not believe the ids of added tokens: one that is in the vocabulary has its id
 * there, and others are numbered on behind it. What a file says must be the same. */
static int check_added_id(struct pipeline *pipeline, const char *text, size_t length, int64_t id,
                          struct error *err)
{
    int64_t there = id_in_vocabulary(pipeline, text, length, id);

    if (there == -2)
        return error_set(err, "out of memory for the vocabulary");
    if (there < 0)
        there = pipeline->last_added >= pipeline->model_tokens ? pipeline->last_added + 1
                                                               : pipeline->model_tokens;
    if (there != id)
        return error_set(err,
                         "%s: added token %.60s has id %lld, and Hugging Face would give it %lld",
                         pipeline->path, text, (long long)id, (long long)there);
    if (id > pipeline->last_added)
        pipeline->last_added = id;
    return 0;
}

/* One entry of added_tokens: found in texts as a whole. */
static int add_token(struct pipeline *pipeline, struct json_value token, struct error *err)
{
    static const char *const unknown[] = {"single_word", "lstrip", "rstrip"};
    struct tokenizer *tokenizer = pipeline->tokenizer;
    struct vocabulary *vocabulary = &tokenizer->vocabulary;
    struct json_value member;
    const char *text;
    size_t length;
    int64_t id;
    int late;

    if (json_member(token, "content", &member) < 0 || json_string(member, &text, &length) < 0 ||
        json_member(token, "id", &member) < 0 || json_integer(member, &id) < 0 || length == 0)
        return error_set(err, "%s: an added token without id and content", pipeline->path);
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        if (flag_is(token, unknown[i], 0))
            return error_set(err, "%s: added token %.60s with %s is not supported", pipeline->path,
                             text, unknown[i]);
    late = flag_is(token, "normalized", 0);
    if (late && tokenizer->normalizes_added)
        return error_set(err,
                         "%s: added token %.60s with normalized is not supported where there "
                         "is a normalizer",
                         pipeline->path, text);
    if (check_added_id(pipeline, text, length, id, err) < 0)
        return -1;
    if (((size_t)id >= vocabulary->count || vocabulary->entries[id].kind == VOCABULARY_ABSENT) &&
        vocabulary_set(vocabulary, id, text, length, VOCABULARY_SPECIAL, err) < 0)
        return error_prefix(err, "%s: added token %.60s", pipeline->path, text);
    if (tokenizer->config.special_as_text && flag_is(token, "special", 0))
        return 0;
    if (specials_add(late ? &tokenizer->late_specials : &tokenizer->specials, (const uint8_t *)text,
                     length, (uint32_t)id) < 0)
        return error_set(err, "out of memory for the vocabulary");
    return 0;
}

static int read_added_tokens(struct pipeline *pipeline, struct json_value root, struct error *err)
{
    struct json_value tokens, token;
    struct json_iterator iterator;

    pipeline->last_added = -1;
    pipeline->tokenizer->normalizes_added =
        json_member(root, "normalizer", &tokens) == 0 && json_type(tokens) != JSON_NULL;
    if (json_member(root, "added_tokens", &tokens) < 0 || json_type(tokens) != JSON_ARRAY ||
        json_iterate(tokens, &iterator) < 0)
        return 0;
    while (json_next(&iterator, NULL, NULL, &token))
        if (add_token(pipeline, token, err) < 0)
            return -1;
    return 0;
}

/* The id of a token by its text; -1 if there is none. */
static int64_t find_id(const struct vocabulary *vocabulary, const char *name, size_t length)
{
    for (size_t id = 0; id < vocabulary->count; id++) {
        size_t size;
        const uint8_t *text = vocabulary_text(vocabulary, id, &size);

        if (vocabulary->entries[id].kind != VOCABULARY_ABSENT && size == length &&
            memcmp(text, name, length) == 0)
            return (int64_t)id;
    }
    return -1;
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
    return json_string(member, &text, &length) == 0 ? find_id(vocabulary, text, length) : -1;
}

static void find_ends(struct pipeline *pipeline)
{
    static const char *const begins[] = {"<|begin_of_text|>", "<s>", "<bos>"};
    static const char *const ends[] = {"<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>"};
    struct tokenizer *tokenizer = pipeline->tokenizer;
    char path[4096 + 32], *slash;
    struct json *json;

    snprintf(path, sizeof(path), "%s", pipeline->path);
    slash = strrchr(path, '/');
    snprintf(slash ? slash + 1 : path, 32, "tokenizer_config.json");
    json = json_read_file(path, FILE_LIMIT, NULL);
    if (json) {
        tokenizer->bos = named_id(&tokenizer->vocabulary, json_root(json), "bos_token");
        tokenizer->eos = named_id(&tokenizer->vocabulary, json_root(json), "eos_token");
        json_destroy(json);
    } else {
        for (size_t i = 0; tokenizer->bos < 0 && i < sizeof(begins) / sizeof(begins[0]); i++)
            tokenizer->bos = find_id(&tokenizer->vocabulary, begins[i], strlen(begins[i]));
        for (size_t i = 0; tokenizer->eos < 0 && i < sizeof(ends) / sizeof(ends[0]); i++)
            tokenizer->eos = find_id(&tokenizer->vocabulary, ends[i], strlen(ends[i]));
    }
    tokenizer->eod = tokenizer->eos;
}

/* Ids have gaps: has each of these a token? */
static int check_around(const struct tokenizer *tokenizer, const struct around *around,
                        struct error *err)
{
    for (size_t i = 0; i < around->count; i++)
        if (tokenizer->vocabulary.entries[around->ids[i]].kind == VOCABULARY_ABSENT)
            return error_set(err,
                             "post_processor: the id of a special token is not in the vocabulary");
    return 0;
}

static int read_root(struct pipeline *pipeline, struct json_value root, struct error *err)
{
    struct tokenizer *tokenizer = pipeline->tokenizer;
    struct json_value post;

    tokenizer->split = (struct split_options){.rule = SPLIT_CUTS};
    if (json_type(root) != JSON_OBJECT)
        return error_set(err, "%s: should be an object", pipeline->path);
    if (check_model(pipeline, root, err) < 0 || read_components(pipeline, root, err) < 0 ||
        read_model(pipeline, root, err) < 0 || read_added_tokens(pipeline, root, err) < 0)
        return -1;
    /* Cuts would make words of what is none. */
    if (tokenizer->bpe.whole_words && tokenizer->split.rule == SPLIT_CUTS)
        return error_set(err,
                         "%s: model BPE with ignore_merges is not supported where no pattern "
                         "splits texts into words",
                         pipeline->path);
    if (!pipeline->byte_level) {
        tokenizer->normalizer.active = 1;
        tokenizer->decode = DECODE_SENTENCEPIECE;
    }
    tokenizer->vocab_size = (int64_t)tokenizer->vocabulary.count;
    find_ends(pipeline);
    if (tokenizer->config.add_specials && json_member(root, "post_processor", &post) == 0 &&
        (template_read(post, tokenizer->vocab_size, &tokenizer->before, &tokenizer->after, err) <
             0 ||
         check_around(tokenizer, &tokenizer->before, err) < 0 ||
         check_around(tokenizer, &tokenizer->after, err) < 0))
        return error_prefix(err, "%s", pipeline->path);
    return 0;
}

int load_huggingface(struct tokenizer *tokenizer, struct error *err)
{
    struct pipeline pipeline = {.tokenizer = tokenizer};
    const char *model = tokenizer->config.model;
    struct stat status;
    struct json *json;
    int rc;

    if (!model)
        return error_set(err, "HuggingFaceTokenizer needs --tokenizer-model, a tokenizer.json or "
                              "its directory");
    if (strlen(model) + 32 > sizeof(pipeline.path))
        return error_set(err, "--tokenizer-model: the path is too long");
    snprintf(pipeline.path, sizeof(pipeline.path), "%s%s", model,
             stat(model, &status) == 0 && S_ISDIR(status.st_mode) ? "/tokenizer.json" : "");
    json = json_read_file(pipeline.path, FILE_LIMIT, err);
    if (!json)
        return -1;
    rc = read_root(&pipeline, json_root(json), err);
    json_destroy(json);
    return rc;
}
