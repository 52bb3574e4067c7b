/* SPDX-License-Identifier: Apache-2.0 */
/* The normalizers of a tokenizer.json. */
#include "huggingface.h"
#include "base64.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

static int refuse(const struct pipeline *pipeline, struct json_value component, const char *what,
                  struct error *err)
{
    return huggingface_refuse(pipeline, "normalizer", component, what, err);
}

/* The text of a member, to be freed; NULL if it is missing. */
static char *copy_text(struct json_value object, const char *name, size_t *length)
{
    struct json_value member;
    const char *text;

    if (json_member(object, name, &member) < 0 || json_string(member, &text, length) < 0)
        return NULL;
    return memcpy(xmalloc(*length + 1), text, *length + 1);
}

static int read_content(struct rewrite *rewrite, struct json_value component, const char *name)
{
    rewrite->content = copy_text(component, name, &rewrite->content_length);
    return rewrite->content ? 0 : -1;
}

/* The pattern of Replace: a text or a regular expression. */
static int read_pattern(struct pipeline *pipeline, struct rewrite *rewrite,
                        struct json_value component, struct error *err)
{
    struct json_value pattern, member;
    struct error why;
    const char *text;
    char *escaped = NULL;
    size_t length;
    int rc;

    if (json_member(component, "pattern", &pattern) < 0 ||
        (json_member(pattern, "String", &member) < 0 &&
         json_member(pattern, "Regex", &member) < 0) ||
        json_string(member, &text, &length) < 0)
        return refuse(pipeline, component, " without a pattern", err);
    if (json_member(pattern, "String", &member) == 0) {
        escaped = regex_escape(text, length, &length);
        text = escaped;
    }
    rewrite->regex = xcalloc(1, sizeof(*rewrite->regex));
    rc = regex_compile(rewrite->regex, text, length, 0, &why);
    free(escaped);
    return rc < 0 ? huggingface_refuse_pattern(pipeline, "normalizer Replace", &why, err) : 0;
}

static int read_precompiled(struct pipeline *pipeline, struct rewrite *rewrite,
                            struct json_value component, struct error *err)
{
    size_t length = 0;
    char *text = copy_text(component, "precompiled_charsmap", &length);
    int rc = -1;

    rewrite->map = xcalloc(1, sizeof(*rewrite->map));
    length = text ? base64_decode(text, length, (uint8_t *)text) : SIZE_MAX;
    if (length == SIZE_MAX)
        refuse(pipeline, component, " without a map in base64", err);
    else if (normalizer_set_map(rewrite->map, (const uint8_t *)text, length, err) < 0)
        error_prefix(err, "%s: normalizer Precompiled", pipeline->path);
    else
        rc = 0;
    free(text);
    if (rc == 0)
        normalizer_find_plain(rewrite->map);
    return rc;
}

/* Prepend and Replace as Llama 2 has them are part of the SentencePiece normalizer of this folder.
 * Returns 1 if this was one of them, 0, or -1. */
static int read_marks(struct pipeline *pipeline, struct json_value component, struct error *err)
{
    struct normalizer *normalizer = &pipeline->tokenizer->normalizer;
    struct json_value pattern;

    if (huggingface_text_is(component, "type", "Prepend") &&
        huggingface_text_is(component, "prepend", SPACE_MARK) &&
        pipeline->tokenizer->rewrites.count == 0 && !pipeline->marks_spaces) {
        if (normalizer->prefix)
            return refuse(pipeline, component, " for the second time", err);
        normalizer->prefix = NORMALIZER_PREFIX;
        return 1;
    }
    if (huggingface_text_is(component, "type", "Replace") &&
        huggingface_text_is(component, "content", SPACE_MARK) &&
        json_member(component, "pattern", &pattern) == 0 &&
        huggingface_text_is(pattern, "String", " ")) {
        pipeline->marks_spaces = 1;
        return 1;
    }
    return 0;
}

/* One that has no settings. Returns 1 if this was one. */
static int read_simple(struct rewrite *rewrite, struct json_value component)
{
    static const struct {
        const char *name;
        enum rewrite_kind kind;
        enum nfc_form form;
    } names[] = {
        {"NFC", REWRITE_FORM, NFC_FORM_C},
        {"NFD", REWRITE_FORM, NFC_FORM_D},
        {"NFKC", REWRITE_FORM, NFC_FORM_KC},
        {"NFKD", REWRITE_FORM, NFC_FORM_KD},
        {"Lowercase", REWRITE_LOWERCASE, NFC_FORM_C},
        {"StripAccents", REWRITE_STRIP_ACCENTS, NFC_FORM_C},
        {"Nmt", REWRITE_NMT, NFC_FORM_C},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (huggingface_text_is(component, "type", names[i].name)) {
            rewrite->kind = names[i].kind;
            rewrite->form = names[i].form;
            return 1;
        }
    return 0;
}

static int read_settings(struct pipeline *pipeline, struct rewrite *rewrite,
                         struct json_value component, struct error *err)
{
    if (read_simple(rewrite, component))
        return 0;
    if (huggingface_text_is(component, "type", "BertNormalizer")) {
        rewrite->kind = REWRITE_BERT;
        rewrite->clean = flag_is(component, "clean_text", 1);
        rewrite->chinese = flag_is(component, "handle_chinese_chars", 1);
        rewrite->lower = flag_is(component, "lowercase", 1);
        rewrite->accents = flag_is(component, "strip_accents", rewrite->lower);
        return 0;
    }
    if (huggingface_text_is(component, "type", "Strip")) {
        rewrite->kind = REWRITE_STRIP;
        rewrite->left = flag_is(component, "strip_left", 1);
        rewrite->right = flag_is(component, "strip_right", 1);
        return 0;
    }
    if (huggingface_text_is(component, "type", "Precompiled")) {
        rewrite->kind = REWRITE_PRECOMPILED;
        return read_precompiled(pipeline, rewrite, component, err);
    }
    rewrite->kind = REWRITE_PREPEND;
    if (huggingface_text_is(component, "type", "Prepend") &&
        read_content(rewrite, component, "prepend") == 0)
        return 0;
    rewrite->kind = REWRITE_REPLACE;
    if (huggingface_text_is(component, "type", "Replace") &&
        read_content(rewrite, component, "content") == 0)
        return read_pattern(pipeline, rewrite, component, err);
    return refuse(pipeline, component, "", err);
}

int huggingface_read_normalizer(struct pipeline *pipeline, struct json_value component,
                                struct error *err)
{
    struct rewrites *rewrites = &pipeline->tokenizer->rewrites;
    int done = huggingface_read_sequence(pipeline, component, "normalizers",
                                         huggingface_read_normalizer, err);

    if (done == 0)
        done = read_marks(pipeline, component, err);
    if (done != 0)
        return done < 0 ? -1 : 0;
    /* The marks are added last, when the text is passed to the model. */
    if (pipeline->marks_spaces || pipeline->tokenizer->normalizer.prefix)
        return refuse(pipeline, component, " after one that writes " SPACE_MARK, err);
    if (rewrites->count == REWRITES_MOST)
        return refuse(pipeline, component, " after so many others", err);
    return read_settings(pipeline, &rewrites->list[rewrites->count++], component, err);
}
