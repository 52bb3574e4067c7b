/* SPDX-License-Identifier: Apache-2.0 */
#include "xml.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *at, *end;
    int line;
    xml_handler *handler;
    void *context;
    char open[XML_DEPTH][64]; /* names of the open elements */
    size_t depth;
};

const char *xml_attribute(const struct xml_element *element, const char *name)
{
    for (size_t i = 0; i < element->attribute_count; i++)
        if (strcmp(element->attributes[i].name, name) == 0)
            return element->attributes[i].value;
    return NULL;
}

static int peek(const struct reader *reader)
{
    return reader->at < reader->end ? (unsigned char)*reader->at : -1;
}

static void step(struct reader *reader)
{
    reader->line += *reader->at++ == '\n';
}

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) && *reader->at)
        step(reader);
}

/* Advance past 'text' if it comes next. */
static int take(struct reader *reader, const char *text)
{
    size_t length = strlen(text);

    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, text, length) != 0)
        return 0;
    reader->at += length;
    return 1;
}

static int skip_past(struct reader *reader, const char *text)
{
    while (reader->at < reader->end) {
        if (take(reader, text))
            return 1;
        step(reader);
    }
    return 0;
}

static int take_name(struct reader *reader, char name[64])
{
    size_t length = 0;

    for (int c = peek(reader); c > 0 && (isalnum(c) || strchr("_-.:", c)); c = peek(reader)) {
        if (length == 63)
            return 0;
        name[length++] = (char)c;
        step(reader);
    }
    name[length] = '\0';
    return length > 0;
}

static int take_entity(struct reader *reader)
{
    static const struct {
        const char *text;
        char character;
    } entities[] = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};

    for (size_t i = 0; i < sizeof(entities) / sizeof(entities[0]); i++)
        if (take(reader, entities[i].text))
            return entities[i].character;
    return -1;
}

static int take_value(struct reader *reader, char value[XML_VALUE])
{
    int quote = peek(reader);
    size_t length = 0;

    if (quote != '"' && quote != '\'')
        return 0;
    step(reader);
    for (int c = peek(reader); c != quote; c = peek(reader)) {
        if (c <= 0 || c == '<' || length == XML_VALUE - 1)
            return 0;
        if (c == '&') {
            c = take_entity(reader);
            if (c < 0)
                return 0;
        } else {
            step(reader);
        }
        value[length++] = (char)c;
    }
    step(reader);
    value[length] = '\0';
    return 1;
}

static int take_attributes(struct reader *reader, struct xml_element *element)
{
    for (;;) {
        size_t i = element->attribute_count;

        skip_space(reader);
        if (peek(reader) == '>' || peek(reader) == '/')
            return 1;
        if (i == XML_ATTRIBUTES || !take_name(reader, element->attributes[i].name))
            return 0;
        skip_space(reader);
        if (!take(reader, "="))
            return 0;
        skip_space(reader);
        if (!take_value(reader, element->attributes[i].value) ||
            xml_attribute(element, element->attributes[i].name))
            return 0;
        element->attribute_count++;
    }
}

/* Parse after "</". 1: parsed, 0: not XML, -1: the handler stopped. */
static int close_element(struct reader *reader, struct xml_element *element, struct error *err)
{
    element->attribute_count = 0;
    if (!take_name(reader, element->name) || reader->depth == 0 ||
        strcmp(element->name, reader->open[reader->depth - 1]) != 0)
        return 0;
    skip_space(reader);
    if (!take(reader, ">"))
        return 0;
    reader->depth--;
    return reader->handler(reader->context, element, 0, err) < 0 ? -1 : 1;
}

/* Parse after "<". Return values as above. */
static int open_element(struct reader *reader, struct xml_element *element, struct error *err)
{
    element->attribute_count = 0;
    if (reader->depth == XML_DEPTH || !take_name(reader, element->name) ||
        !take_attributes(reader, element))
        return 0;
    if (reader->handler(reader->context, element, 1, err) < 0)
        return -1;
    if (take(reader, "/>")) {
        element->attribute_count = 0;
        return reader->handler(reader->context, element, 0, err) < 0 ? -1 : 1;
    }
    memcpy(reader->open[reader->depth++], element->name, sizeof(element->name));
    return take(reader, ">");
}

static int read_document(struct reader *reader, struct xml_element *element, struct error *err)
{
    int roots = 0, rc = 1;

    if (take(reader, "\xef\xbb\xbf"))
        reader->line = 1;
    while (rc == 1) {
        skip_space(reader);
        if (reader->at == reader->end)
            return reader->depth == 0 && roots == 1;
        if (take(reader, "<?")) {
            rc = skip_past(reader, "?>");
        } else if (take(reader, "<!--")) {
            rc = skip_past(reader, "-->");
        } else if (take(reader, "</")) {
            rc = close_element(reader, element, err);
        } else if (take(reader, "<")) {
            roots += reader->depth == 0;
            rc = roots > 1 ? 0 : open_element(reader, element, err);
        } else {
            rc = 0;
        }
    }
    return rc;
}

int xml_read(const char *name, const char *text, size_t size, xml_handler *handler, void *context,
             struct error *err)
{
    struct reader *reader = calloc(1, sizeof(*reader));
    struct xml_element *element = calloc(1, sizeof(*element));
    int rc = -1;

    if (!reader || !element) {
        error_set(err, "out of memory");
    } else {
        *reader = (struct reader){
            .at = text, .end = text + size, .line = 1, .handler = handler, .context = context};
        rc = read_document(reader, element, err);
        if (rc == 0)
            error_set(err,
                      "%s: line %d is not valid XML of an NCCL topology; write it again with "
                      "NCCL_TOPO_DUMP_FILE",
                      name, reader->line);
        else if (rc < 0)
            error_prefix(err, "%s: line %d", name, reader->line);
        rc = rc == 1 ? 0 : -1;
    }
    free(reader);
    free(element);
    return rc;
}
