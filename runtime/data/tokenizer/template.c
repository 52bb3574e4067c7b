/* SPDX-License-Identifier: Apache-2.0 */
/* The post-processor of a tokenizer.json: special tokens that it adds around a text. */
#include "huggingface.h"

#include <inttypes.h>
#include <string.h>

static int refuse(struct json_value component, const char *what, struct error *err)
{
    struct json_value type;
    const char *text = "unnamed";
    size_t length;

    if (json_member(component, "type", &type) == 0)
        json_string(type, &text, &length);
    return error_set(
        err, "post_processor %.60s%s is not supported; drop --tokenizer-hf-include-special-tokens",
        text, what);
}

static int add_id(struct around *around, struct json_value value,
                  const struct vocabulary *vocabulary, struct error *err)
{
    int64_t id;

    if (json_integer(value, &id) < 0)
        return error_set(err, "post_processor: the id of a special token is not an integer; get "
                              "tokenizer.json again from its source");
    if (id < 0 || (size_t)id >= vocabulary->count ||
        vocabulary->entries[id].kind == VOCABULARY_ABSENT)
        return error_set(err,
                         "post_processor: special token id %" PRId64
                         " is not in the vocabulary; get tokenizer.json again from its source",
                         id);
    if (around->count == AROUND_IDS)
        return error_set(err,
                         "post_processor adds more than %d special tokens; drop "
                         "--tokenizer-hf-include-special-tokens",
                         AROUND_IDS);
    around->ids[around->count++] = (uint32_t)id;
    return 0;
}

/* All ids of the special token of this name. */
static int add_named(struct around *around, struct json_value component, struct json_value token,
                     const struct vocabulary *vocabulary, struct error *err)
{
    struct json_value name, tokens, entry, ids, id;
    struct json_iterator iterator;
    const char *text;
    size_t length;

    if (json_member(token, "id", &name) < 0 || json_string(name, &text, &length) < 0 ||
        json_member(component, "special_tokens", &tokens) < 0 ||
        json_member(tokens, text, &entry) < 0 || json_member(entry, "ids", &ids) < 0 ||
        json_iterate(ids, &iterator) < 0)
        return error_set(err,
                         "post_processor: special_tokens has no ids for a token of the template");
    while (json_next(&iterator, NULL, NULL, &id))
        if (add_id(around, id, vocabulary, err) < 0)
            return -1;
    return 0;
}

static int read_template(struct json_value component, const struct vocabulary *vocabulary,
                         struct around *before, struct around *after, struct error *err)
{
    struct json_value pieces, piece, member;
    struct json_iterator iterator;
    int texts = 0;

    if (json_member(component, "single", &pieces) < 0 || json_iterate(pieces, &iterator) < 0)
        return refuse(component, " without a template", err);
    while (json_next(&iterator, NULL, NULL, &piece)) {
        if (json_member(piece, "Sequence", &member) == 0)
            texts++;
        else if (json_member(piece, "SpecialToken", &member) < 0)
            return refuse(component, " with this template", err);
        else if (add_named(texts ? after : before, component, member, vocabulary, err) < 0)
            return -1;
    }
    return texts == 1 ? 0 : refuse(component, " with this template", err);
}

/* Pairs of a token and its id under these names. */
static int read_pair(struct json_value component, const char *name,
                     const struct vocabulary *vocabulary, struct around *around, struct error *err)
{
    struct json_value pair, id;
    struct json_iterator iterator;

    if (json_member(component, name, &pair) < 0 || json_iterate(pair, &iterator) < 0 ||
        !json_next(&iterator, NULL, NULL, &id) || !json_next(&iterator, NULL, NULL, &id))
        return refuse(component, " without its tokens", err);
    return add_id(around, id, vocabulary, err);
}

int template_read(struct json_value component, const struct vocabulary *vocabulary,
                  struct around *before, struct around *after, struct error *err)
{
    struct json_value parts;
    struct json_iterator iterator;

    if (json_type(component) == JSON_NULL || huggingface_text_is(component, "type", "ByteLevel"))
        return 0;
    if (huggingface_text_is(component, "type", "Sequence") &&
        json_member(component, "processors", &parts) == 0 && json_iterate(parts, &iterator) == 0) {
        while (json_next(&iterator, NULL, NULL, &component))
            if (template_read(component, vocabulary, before, after, err) < 0)
                return -1;
        return 0;
    }
    /* If two of them add tokens, the second adds around each part of the first one's result. */
    if (before->count + after->count > 0)
        return refuse(component, " after another one that adds tokens", err);
    if (huggingface_text_is(component, "type", "TemplateProcessing"))
        return read_template(component, vocabulary, before, after, err);
    if (!huggingface_text_is(component, "type", "BertProcessing") &&
        !huggingface_text_is(component, "type", "RobertaProcessing"))
        return refuse(component, "", err);
    return read_pair(component, "cls", vocabulary, before, err) < 0
               ? -1
               : read_pair(component, "sep", vocabulary, after, err);
}
