/* The components of a tokenizer.json that work on texts before the model does, and which model may
 * follow them. One that is not known here is refused by name, never passed over. */
#include "huggingface.h"

#include <string.h>

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

static int text_is(struct json_value object, const char *name, const char *wanted)
{
    struct json_value member;
    const char *text;
    size_t length;

    return json_member(object, name, &member) == 0 && json_string(member, &text, &length) == 0 &&
           length == strlen(wanted) && memcmp(text, wanted, length) == 0;
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

typedef int reader(struct pipeline *pipeline, struct json_value component, struct error *err);

/* Returns 1 when this was a sequence of components, and they were read; 0 for a single one. */
static int read_sequence(struct pipeline *pipeline, struct json_value component, const char *name,
                         reader *read, struct error *err)
{
    struct json_value members;
    struct json_iterator iterator;

    if (!text_is(component, "type", "Sequence") || json_member(component, name, &members) < 0 ||
        json_iterate(members, &iterator) < 0)
        return 0;
    while (json_next(&iterator, NULL, NULL, &component))
        if (read(pipeline, component, err) < 0)
            return -1;
    return 1;
}

static int read_normalizer(struct pipeline *pipeline, struct json_value component,
                           struct error *err)
{
    struct normalizer *normalizer = &pipeline->tokenizer->normalizer;
    struct json_value pattern;
    int sequence = read_sequence(pipeline, component, "normalizers", read_normalizer, err);

    if (sequence != 0)
        return sequence < 0 ? -1 : 0;
    if (text_is(component, "type", "NFC")) {
        pipeline->tokenizer->composes = 1;
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
        return refuse(pipeline, "pre_tokenizer", component, " after ByteLevel", err);
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
    int sequence = read_sequence(pipeline, component, "pretokenizers", read_pre_tokenizer, err);

    if (sequence != 0)
        return sequence < 0 ? -1 : 0;
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

int huggingface_read_components(struct pipeline *pipeline, struct json_value root,
                                struct error *err)
{
    struct json_value component;

    if (check_model(pipeline, root, err) < 0)
        return -1;
    if (json_member(root, "normalizer", &component) == 0 && json_type(component) != JSON_NULL &&
        read_normalizer(pipeline, component, err) < 0)
        return -1;
    if (json_member(root, "pre_tokenizer", &component) == 0 && json_type(component) != JSON_NULL &&
        read_pre_tokenizer(pipeline, component, err) < 0)
        return -1;
    if (pipeline->byte_level && (pipeline->marks_spaces || pipeline->tokenizer->normalizer.prefix))
        return error_set(err, "%s: ByteLevel together with %s is not supported", pipeline->path,
                         SPACE_MARK);
    if (pipeline->tokenizer->composes && !pipeline->byte_level)
        return error_set(err, "%s: normalizer NFC without ByteLevel is not supported",
                         pipeline->path);
    if (!pipeline->byte_level && (!pipeline->marks_spaces || pipeline->split_found))
        return error_set(err,
                         "%s: a pipeline that neither works on bytes (ByteLevel) nor marks "
                         "spaces is not supported",
                         pipeline->path);
    if (pipeline->byte_level && !pipeline->split_found)
        pipeline->tokenizer->split = (struct split_options){.rule = SPLIT_CUTS};
    return 0;
}
