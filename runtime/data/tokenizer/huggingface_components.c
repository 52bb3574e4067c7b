/* SPDX-License-Identifier: Apache-2.0 */
/* The pre-tokenizers of a tokenizer.json, and which model may follow them. An unknown one is
 * rejected by name, never skipped. */
#include "huggingface.h"

#include <stdlib.h>
#include <string.h>

int huggingface_text_is(struct json_value object, const char *name, const char *wanted)
{
    struct json_value member;
    const char *text;
    size_t length;

    return json_member(object, name, &member) == 0 && json_string(member, &text, &length) == 0 &&
           length == strlen(wanted) && memcmp(text, wanted, length) == 0;
}

int huggingface_refuse(const struct pipeline *pipeline, const char *part,
                       struct json_value component, const char *what, struct error *err)
{
    struct json_value member;
    const char *type = "unnamed";
    size_t length;

    if (json_member(component, "type", &member) == 0)
        json_string(member, &type, &length);
    return error_set(err, "%s: %s %.60s%s is not supported" OTHER_TOKENIZER, pipeline->path, part,
                     type, what);
}

int huggingface_refuse_pattern(const struct pipeline *pipeline, const char *part,
                               const struct error *why, struct error *err)
{
    if (why->code == ERROR_USAGE)
        return error_set(err, "%s: %s with %s in its pattern is not supported" OTHER_TOKENIZER,
                         pipeline->path, part, why->text);
    *err = *why;
    return error_prefix(err, "%s", pipeline->path);
}

static int refuse(const struct pipeline *pipeline, struct json_value component, const char *what,
                  struct error *err)
{
    return huggingface_refuse(pipeline, "pre_tokenizer", component, what, err);
}

int huggingface_read_sequence(struct pipeline *pipeline, struct json_value component,
                              const char *name, component_reader *read, struct error *err)
{
    struct json_value members;
    struct json_iterator iterator;

    if (!huggingface_text_is(component, "type", "Sequence") ||
        json_member(component, name, &members) < 0 || json_iterate(members, &iterator) < 0)
        return 0;
    while (json_next(&iterator, NULL, NULL, &component))
        if (read(pipeline, component, err) < 0)
            return -1;
    return 1;
}

/* Add a pattern to those that cut texts into words. */
static int add_step(struct pipeline *pipeline, struct json_value component, const char *pattern,
                    size_t length, int own, enum step_behavior behavior, struct error *err)
{
    struct tokenizer *tokenizer = pipeline->tokenizer;
    struct error why;

    if (pipeline->metaspace || pipeline->words || pipeline->bert)
        return refuse(pipeline, component, " after another that removes spaces", err);
    if (steps_add(&tokenizer->steps, pattern, length, own, behavior,
                  flag_is(component, "invert", 0), pipeline->byte_level, &why) < 0)
        return huggingface_refuse_pattern(pipeline, "pre_tokenizer Split", &why, err);
    pipeline->split_found = 1;
    if (tokenizer->steps.count == 1 && behavior == STEP_ISOLATED && !pipeline->byte_level &&
        split_options_of(pattern, length, &tokenizer->split))
        return 0;
    tokenizer->split = (struct split_options){.rule = SPLIT_STEPS};
    return 0;
}

static int read_behavior(struct pipeline *pipeline, struct json_value component,
                         enum step_behavior *behavior, struct error *err)
{
    static const struct {
        const char *name;
        enum step_behavior behavior;
    } names[] = {{"Isolated", STEP_ISOLATED},
                 {"Contiguous", STEP_CONTIGUOUS},
                 {"MergedWithPrevious", STEP_WITH_PREVIOUS},
                 {"MergedWithNext", STEP_WITH_NEXT}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (huggingface_text_is(component, "behavior", names[i].name)) {
            *behavior = names[i].behavior;
            return 0;
        }
    return refuse(pipeline, component, " with this behavior", err);
}

static int read_split(struct pipeline *pipeline, struct json_value component, struct error *err)
{
    struct json_value pattern, member;
    enum step_behavior behavior = STEP_ISOLATED;
    const char *text;
    size_t length, escaped_length;
    char *escaped;
    int rc;

    if (read_behavior(pipeline, component, &behavior, err) < 0)
        return -1;
    if (json_member(component, "pattern", &pattern) < 0)
        return refuse(pipeline, component, " without a pattern", err);
    if (json_member(pattern, "Regex", &member) == 0 && json_string(member, &text, &length) == 0)
        return add_step(pipeline, component, text, length, 0, behavior, err);
    if (json_member(pattern, "String", &member) < 0 || json_string(member, &text, &length) < 0)
        return refuse(pipeline, component, " without a pattern", err);
    /* Gemma: the normalizer has replaced all spaces, so there is nothing to split at. */
    if (length == 1 && *text == ' ' && pipeline->marks_spaces && !pipeline->byte_level)
        return 0;
    escaped = regex_escape(text, length, &escaped_length);
    rc = add_step(pipeline, component, escaped, escaped_length, 0, behavior, err);
    free(escaped);
    return rc;
}

/* When does Metaspace put a mark before a text? */
static int read_scheme(struct pipeline *pipeline, struct json_value component, int *prefix,
                       struct error *err)
{
    struct json_value member;

    if (json_member(component, "prepend_scheme", &member) < 0)
        *prefix = flag_is(component, "add_prefix_space", 1) ? NORMALIZER_MISSING : 0;
    else if (huggingface_text_is(component, "prepend_scheme", "never"))
        *prefix = 0;
    else if (huggingface_text_is(component, "prepend_scheme", "first"))
        *prefix = NORMALIZER_FIRST;
    else if (huggingface_text_is(component, "prepend_scheme", "always"))
        *prefix = NORMALIZER_MISSING;
    else
        return refuse(pipeline, component, " with this prepend_scheme", err);
    if (*prefix && !flag_is(component, "add_prefix_space", 1))
        return refuse(pipeline, component, " with a prepend_scheme but without add_prefix_space",
                      err);
    return 0;
}

static int read_metaspace(struct pipeline *pipeline, struct json_value component, struct error *err)
{
    struct tokenizer *tokenizer = pipeline->tokenizer;
    int prefix = 0;

    if (pipeline->metaspace)
        return refuse(pipeline, component, " for the second time", err);
    if (!huggingface_text_is(component, "replacement", SPACE_MARK))
        return refuse(pipeline, component, " with this replacement", err);
    if (read_scheme(pipeline, component, &prefix, err) < 0)
        return -1;
    if (pipeline->words && (prefix != NORMALIZER_MISSING || !flag_is(component, "split", 1)))
        return refuse(pipeline, component, " with these settings after WhitespaceSplit", err);
    tokenizer->normalizer.words = pipeline->words;
    /* If the normalizer prepends a mark, Metaspace does not prepend another one. */
    if (!tokenizer->normalizer.prefix)
        tokenizer->normalizer.prefix = prefix;
    tokenizer->cut_spaces = flag_is(component, "split", 1);
    pipeline->metaspace = pipeline->marks_spaces = 1;
    return 0;
}

static int read_byte_level(struct pipeline *pipeline, struct json_value component,
                           struct error *err)
{
    const char *gpt2 = split_pattern(&(struct split_options){.rule = SPLIT_GPT2});

    if (pipeline->byte_level)
        return refuse(pipeline, component, " for the second time", err);
    if (flag_is(component, "add_prefix_space", 1)) {
        if (pipeline->split_found)
            return refuse(pipeline, component, " with add_prefix_space after another one", err);
        pipeline->tokenizer->prefix_space = 1;
    }
    if (flag_is(component, "use_regex", 1) &&
        add_step(pipeline, component, gpt2, strlen(gpt2), 0, STEP_ISOLATED, err) < 0)
        return -1;
    pipeline->byte_level = 1;
    return 0;
}

static int read_punctuation(struct pipeline *pipeline, struct json_value component,
                            struct error *err)
{
    static const char pattern[] = "\\p{BertPunctuation}";
    enum step_behavior behavior = STEP_ISOLATED;
    struct json_value member;

    if (json_member(component, "behavior", &member) == 0 &&
        read_behavior(pipeline, component, &behavior, err) < 0)
        return -1;
    return add_step(pipeline, component, pattern, sizeof(pattern) - 1, 1, behavior, err);
}

static int read_digits(struct pipeline *pipeline, struct json_value component, struct error *err)
{
    static const char pattern[] = "\\p{RustDigit}";

    return add_step(pipeline, component, pattern, sizeof(pattern) - 1, 1,
                    flag_is(component, "individual_digits", 0) ? STEP_ISOLATED : STEP_CONTIGUOUS,
                    err);
}

/* Those that remove white space: one of them, before anything but Metaspace. */
static int read_removing(struct pipeline *pipeline, struct json_value component, int *which,
                         struct error *err)
{
    if (pipeline->split_found || pipeline->words || pipeline->bert || pipeline->metaspace ||
        pipeline->byte_level)
        return refuse(pipeline, component, " after another one", err);
    *which = 1;
    return 0;
}

static int read_pre_tokenizer(struct pipeline *pipeline, struct json_value component,
                              struct error *err)
{
    int sequence =
        huggingface_read_sequence(pipeline, component, "pretokenizers", read_pre_tokenizer, err);

    if (sequence != 0)
        return sequence < 0 ? -1 : 0;
    if (huggingface_text_is(component, "type", "Split"))
        return read_split(pipeline, component, err);
    if (huggingface_text_is(component, "type", "Metaspace"))
        return read_metaspace(pipeline, component, err);
    if (huggingface_text_is(component, "type", "ByteLevel"))
        return read_byte_level(pipeline, component, err);
    if (huggingface_text_is(component, "type", "Digits"))
        return read_digits(pipeline, component, err);
    if (huggingface_text_is(component, "type", "Punctuation"))
        return read_punctuation(pipeline, component, err);
    if (huggingface_text_is(component, "type", "WhitespaceSplit"))
        return read_removing(pipeline, component, &pipeline->words, err);
    if (huggingface_text_is(component, "type", "BertPreTokenizer"))
        return read_removing(pipeline, component, &pipeline->bert, err);
    return refuse(pipeline, component, "", err);
}

/* A model of another kind is the better explanation than its different pipeline. */
static int read_kind(struct pipeline *pipeline, struct json_value root, struct error *err)
{
    struct json_value model, type;

    if (json_member(root, "model", &model) < 0 || json_type(model) != JSON_OBJECT ||
        json_member(model, "type", &type) < 0 || huggingface_text_is(model, "type", "BPE"))
        return 0;
    if (huggingface_text_is(model, "type", "WordPiece"))
        pipeline->tokenizer->model = MODEL_WORDPIECE;
    else if (huggingface_text_is(model, "type", "Unigram"))
        pipeline->tokenizer->model = MODEL_UNIGRAM;
    else
        return huggingface_refuse(pipeline, "model", model, "", err);
    return 0;
}

/* Do the parts go together? */
static int check_pipeline(const struct pipeline *pipeline, struct error *err)
{
    const struct tokenizer *tokenizer = pipeline->tokenizer;

    if (tokenizer->model == MODEL_WORDPIECE)
        return pipeline->bert ? 0
                              : error_set(err,
                                          "%s: model WordPiece without pre_tokenizer "
                                          "BertPreTokenizer is not supported" OTHER_TOKENIZER,
                                          pipeline->path);
    if (pipeline->bert || (pipeline->words && !pipeline->metaspace))
        return error_set(err,
                         "%s: pre_tokenizer %s with this model is not supported" OTHER_TOKENIZER,
                         pipeline->path, pipeline->bert ? "BertPreTokenizer" : "WhitespaceSplit");
    if (tokenizer->model == MODEL_UNIGRAM && !pipeline->metaspace)
        return error_set(
            err,
            "%s: model Unigram without pre_tokenizer Metaspace is not supported" OTHER_TOKENIZER,
            pipeline->path);
    if (pipeline->byte_level && (pipeline->marks_spaces || tokenizer->normalizer.prefix))
        return error_set(err,
                         "%s: ByteLevel together with " SPACE_MARK
                         " for spaces (Metaspace or Prepend) is not supported" OTHER_TOKENIZER,
                         pipeline->path);
    if (!pipeline->byte_level && !pipeline->marks_spaces)
        return error_set(err,
                         "%s: a tokenizer that has neither ByteLevel nor " SPACE_MARK
                         " for spaces (Metaspace) is not supported" OTHER_TOKENIZER,
                         pipeline->path);
    if (!pipeline->byte_level && pipeline->split_found)
        return error_set(
            err, "%s: pre_tokenizer Split without ByteLevel is not supported" OTHER_TOKENIZER,
            pipeline->path);
    return 0;
}

int huggingface_read_components(struct pipeline *pipeline, struct json_value root,
                                struct error *err)
{
    struct tokenizer *tokenizer = pipeline->tokenizer;
    struct json_value component;

    if (read_kind(pipeline, root, err) < 0)
        return -1;
    if (json_member(root, "normalizer", &component) == 0 && json_type(component) != JSON_NULL &&
        huggingface_read_normalizer(pipeline, component, err) < 0)
        return -1;
    if (json_member(root, "pre_tokenizer", &component) == 0 && json_type(component) != JSON_NULL &&
        read_pre_tokenizer(pipeline, component, err) < 0)
        return -1;
    if (check_pipeline(pipeline, err) < 0)
        return -1;
    if (tokenizer->model == MODEL_WORDPIECE)
        tokenizer->split = (struct split_options){.rule = SPLIT_BERT};
    return 0;
}
