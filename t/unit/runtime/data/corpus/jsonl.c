/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of JSON: what is taken from them, and what is refused and why. */
#include "data/corpus/jsonl.h"
#include "config.h"
#include "tap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LINE(text) text, sizeof(text) - 1

static const struct {
    const char *line;
    size_t size;
    enum document_fault fault;
    const char *texts; /* of key 0, joined by | ; then of key 1 behind a ; */
} rows[] = {
    {LINE("{\"text\":\"abc\",\"a\":{\"b\":\"x\"}}"), FAULT_NONE, "abc;x"},
    {LINE("{\"a\":{\"b\":\"x\",\"text\":\"no\"},\"text\":\"\"} \r"), FAULT_NONE, ";x"},
    {LINE("  {\"text\" : [\"one\" , \"two\"], \"a.b\":\"x\"}"), FAULT_NONE, "one|two;x"},
    {LINE("{\"text\":[],\"a\":{\"b\":[\"\"]}}"), FAULT_NONE, ";"},
    {LINE("{\"text\":\"1\",\"a.b\":\"name\",\"a\":{\"b\":\"path\"}}"), FAULT_NONE, "1;name"},
    {LINE("{\"text\":\"1\",\"a\":{\"b\":\"path\"},\"a.b\":\"name\"}"), FAULT_NONE, "1;name"},
    /* Of equal keys the last one counts; a key may be written with escapes. */
    {LINE("{\"text\":\"1\",\"text\":\"2\",\"a.b\":\"\"}"), FAULT_NONE, "2;"},
    {LINE("{\"text\":\"1\",\"a\":{\"b\":\"x\"},\"a\":{}}"), FAULT_KEY, NULL},
    {LINE("{\"text\":\"1\",\"a\":{\"b\":\"x\"},\"a\":5}"), FAULT_KEY, NULL},
    {LINE("{\"text\":\"1\",\"a\":{},\"a\":{\"b\":\"x\"}}"), FAULT_NONE, "1;x"},
    {LINE("{\"text\":\"1\",\"a.b\":\"y\",\"a\":{\"b\":\"x\"},\"a\":{}}"), FAULT_NONE, "1;y"},
    {LINE("{\"text\":\"\\ud800\",\"text\":\"2\",\"a.b\":\"\"}"), FAULT_NONE, "2;"},
    {LINE("{\"te\\u0078t\":\"1\",\"a.b\":\"\"}"), FAULT_NONE, "1;"},
    {LINE("{\"text\":1,\"text\":\"2\",\"a.b\":\"\"}"), FAULT_NONE, "2;"},
    {LINE("{\"text\":\"\\u00e9\\ud83d\\ude00\\n\\\"\",\"a.b\":\"\"}"), FAULT_NONE,
     "\xc3\xa9\xf0\x9f\x98\x80\n\";"},
    /* What Python reads beyond the standard. */
    {LINE("{\"x\":NaN,\"y\":-Infinity,\"text\":\"t\",\"a.b\":\"\"}"), FAULT_NONE, "t;"},
    {LINE("{\"x\":123456789012345678901234567890,\"text\":\"t\",\"a.b\":\"\"}"), FAULT_NONE, "t;"},
    {LINE("{\"x\":1e999,\"text\":\"t\",\"a.b\":\"\"}"), FAULT_NONE, "t;"},
    {LINE("{\"x\":\"\\ud800\",\"text\":\"t\",\"a.b\":\"\"}"), FAULT_NONE, "t;"},
    {LINE("{\"text\":\"a\\ud800b\",\"a.b\":\"\"}"), FAULT_SURROGATE, NULL},
    {LINE("{\"text\":\"a\\udc00b\",\"a.b\":\"\"}"), FAULT_SURROGATE, NULL},
    {LINE("{\"text\":\"a\\ud800\\ud800b\",\"a.b\":\"\"}"), FAULT_SURROGATE, NULL},
    {LINE("{\"text\":\"\\ud800\",\"a.b\":\"\"}"), FAULT_SURROGATE, NULL},
    {LINE("{\"text\":\"\xff\",\"a.b\":\"\"}"), FAULT_UTF8, NULL},
    {LINE("{\"text\":\"\xed\xa0\x80\",\"a.b\":\"\"}"), FAULT_UTF8, NULL},
    {LINE("{\"text\":\"a\0b\",\"a.b\":\"\"}"), FAULT_JSON, NULL},
    {LINE("{\"text\":\"a\tb\",\"a.b\":\"\"}"), FAULT_JSON, NULL},
    {LINE("{\"text\":\"a\",\"a.b\":\"\""), FAULT_JSON, NULL},
    {LINE("{\"text\":\"a,\"a.b\":\"\"}"), FAULT_JSON, NULL},
    {LINE("{\"text\":\"a\",\"a.b\":\"\"} {}"), FAULT_JSON, NULL},
    {LINE("{\"text\":\"a\",\"a.b\":\"\"}]"), FAULT_JSON, NULL},
    {LINE("{\"text\":\"a\",\"a.b\":\"\",}"), FAULT_JSON, NULL},
    {LINE("{\"text\":\"a\" \"a.b\":\"\"}"), FAULT_JSON, NULL},
    {LINE("{\"text\":\"a\\x\",\"a.b\":\"\"}"), FAULT_JSON, NULL},
    {LINE("{\"x\":\"a\\x\",\"text\":\"a\",\"a.b\":\"\"}"), FAULT_JSON, NULL},
    {LINE("{\"x\":tru,\"text\":\"a\",\"a.b\":\"\"}"), FAULT_JSON, NULL},
    {LINE("{\"x\":01,\"text\":\"a\",\"a.b\":\"\"}"), FAULT_JSON, NULL},
    {LINE("{\"x\":1.,\"text\":\"a\",\"a.b\":\"\"}"), FAULT_JSON, NULL},
    {LINE("{\"x\":[1,],\"text\":\"a\",\"a.b\":\"\"}"), FAULT_JSON, NULL},
    {LINE("{\"x\":[1 2],\"text\":\"a\",\"a.b\":\"\"}"), FAULT_JSON, NULL},
    {LINE("{\"x\":\"y\":[1],\"text\":\"a\",\"a.b\":\"\"}"), FAULT_JSON, NULL},
    {LINE("{\"x\":[\"y\":1],\"text\":\"a\",\"a.b\":\"\"}"), FAULT_JSON, NULL},
    {LINE("{\"x\":1:2,\"text\":\"a\",\"a.b\":\"\"}"), FAULT_JSON, NULL},
    {LINE("{text:\"a\",\"a.b\":\"\"}"), FAULT_JSON, NULL},
    {LINE("not json"), FAULT_JSON, NULL},
    {LINE("\xef\xbb\xbf{}"), FAULT_JSON, NULL},
    {LINE("[\"text\"]"), FAULT_OBJECT, NULL},
    {LINE("\"text\""), FAULT_OBJECT, NULL},
    {LINE("17"), FAULT_OBJECT, NULL},
    {LINE("{}"), FAULT_KEY, NULL},
    {LINE("{\"text\":\"a\",\"a\":{\"c\":1}}"), FAULT_KEY, NULL},
    {LINE("{\"text\":\"a\",\"a\":[{\"b\":\"x\"}]}"), FAULT_KEY, NULL},
    {LINE("{\"text\":null,\"a.b\":\"\"}"), FAULT_TYPE, NULL},
    {LINE("{\"text\":{\"text\":\"a\"},\"a.b\":\"\"}"), FAULT_TYPE, NULL},
    {LINE("{\"text\":[\"a\",1],\"a.b\":\"\"}"), FAULT_TYPE, NULL},
};

static struct jsonl *jsonl;

static enum document_fault parse(const char *line, size_t size)
{
    char *padded = calloc(1, size + JSONL_PADDING);
    enum document_fault fault;
    static char *kept;

    free(kept);
    kept = padded;
    memcpy(padded, line, size);
    /* What follows a line in a block must not matter. */
    memset(padded + size, '}', JSONL_PADDING);
    fault = jsonl_parse(jsonl, padded, size);
    return fault;
}

static void join(char *to)
{
    for (size_t key = 0; key < 2; key++) {
        size_t count;
        const struct jsonl_text *texts = jsonl_texts(jsonl, key, &count);

        for (size_t i = 0; i < count; i++)
            to += sprintf(to, "%s%.*s", i ? "|" : "", (int)texts[i].size, texts[i].data);
        if (key == 0)
            to += sprintf(to, ";");
    }
}

/* 'depth' lists inside each other, in a member that nobody wants. */
static enum document_fault parse_deep(size_t depth, char open, char close)
{
    char *line = malloc(2 * depth + 64), *at = line;
    enum document_fault fault;

    at += sprintf(at, "{\"text\":\"a\",\"a.b\":\"\",\"x\":");
    memset(at, open, depth);
    memset(at + depth, close, depth);
    at += 2 * depth;
    *at++ = '}';
    fault = parse(line, (size_t)(at - line));
    free(line);
    return fault;
}

/* Strings of random pieces, so that escapes lie at and across every place of a block; what comes
 * out must be what the pieces stand for. */
static int random_strings(void)
{
    static const struct {
        const char *raw, *text;
    } pieces[] = {
        {"a", "a"},
        {"\\\\", "\\"},
        {"\\n", "\n"},
        {"\\\"", "\""},
        {"\\/\\b\\f", "/\b\f"},
        {"\\r\\t", "\r\t"},
        {"n", "n"},
        {"\xc3\xa9", "\xc3\xa9"},
        {"\\u00e9", "\xc3\xa9"},
        {"0123456789abcdefghijklmnopqrstuvwxyz", "0123456789abcdefghijklmnopqrstuvwxyz"},
    };
    uint64_t state = 1;

    for (int round = 0; round < 20000; round++) {
        char raw[1200], text[1200], line[1400];
        size_t raw_size = 0, text_size = 0, count, size;
        const struct jsonl_text *texts;
        /* Few strings have the last escape but one, which the library deals with. */
        unsigned kinds = round % 4 == 0 ? 10 : round % 2 ? 8 : 7, wanted;

        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        wanted = (unsigned)(state >> 33) % 1000;
        while (raw_size < wanted) {
            size_t pick;

            state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
            pick = (size_t)(state >> 33) % (kinds + 1);
            pick = pick == kinds ? 9 : pick;
            memcpy(raw + raw_size, pieces[pick].raw, strlen(pieces[pick].raw));
            raw_size += strlen(pieces[pick].raw);
            memcpy(text + text_size, pieces[pick].text, strlen(pieces[pick].text));
            text_size += strlen(pieces[pick].text);
        }
        size = (size_t)sprintf(line, "{\"a.b\":\"x\\n\",\"text\":[\"%.*s\" , \"\\t\"]}",
                               (int)raw_size, raw);
        if (parse(line, size) != FAULT_NONE)
            return 0;
        texts = jsonl_texts(jsonl, 0, &count);
        if (count != 2 || texts[0].size != text_size ||
            memcmp(texts[0].data, text, text_size) != 0 || texts[1].size != 1 ||
            texts[1].data[0] != '\t')
            return 0;
        texts = jsonl_texts(jsonl, 1, &count);
        if (count != 1 || texts[0].size != 2 || memcmp(texts[0].data, "x\n", 2) != 0)
            return 0;
    }
    return 1;
}

int main(void)
{
    static const char *const keys[] = {"text", "a.b"};
    struct error err;
    char got[256];
    enum document_fault fault;

#ifndef HAVE_SIMDJSON
    return skip_all("built without simdjson");
#endif
    jsonl = jsonl_create(keys, 2, &err);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fault = parse(rows[i].line, rows[i].size);
        is(document_fault_text(fault), document_fault_text(rows[i].fault), rows[i].line);
        if (fault == FAULT_NONE && rows[i].texts) {
            join(got);
            is(got, rows[i].texts, "with these texts");
        }
    }
    parse(LINE("{\"text\":\"a\\u0000b\",\"a.b\":\"\"}"));
    {
        size_t count;
        const struct jsonl_text *texts = jsonl_texts(jsonl, 0, &count);

        ok(count == 1 && texts[0].size == 3 && memcmp(texts[0].data, "a\0b", 3) == 0,
           "an escaped NUL is a byte of the text");
    }
    ok(random_strings(), "escapes at every place of a string");
    is_int(parse_deep(500, '[', ']'), FAULT_NONE, "500 lists deep");
    is_int(parse_deep(600, '[', ']'), FAULT_DEPTH, "600 lists deep are too many");
    is_int(parse_deep(1000000, '[', ']'), FAULT_DEPTH, "a million lists deep");
    ok(parse_deep(1000000, '[', ' ') != FAULT_NONE, "a million lists that never close");
    ok(parse_deep(1000000, '{', '}') != FAULT_NONE, "a million objects without keys");
    {
        size_t size = 3 << 20;
        char *line = malloc(size + 64);
        int head = sprintf(line, "{\"a.b\":\"\",\"text\":\"");

        memset(line + head, 'x', size);
        memcpy(line + head + size, "\"}", 2);
        is_int(parse(line, (size_t)head + size + 2), FAULT_NONE, "a line of 3 MiB");
        jsonl_trim(jsonl);
        is_int(parse(LINE("{\"text\":\"a\",\"a.b\":\"\"}")), FAULT_NONE,
               "and a short one after it");
        free(line);
    }
    {
        char names[64], line[] = "{\"id\":1,\"body\":\"x\"}"
                                 "                                                                ";

        jsonl_names(jsonl, line, 19, names, sizeof(names));
        is(names, "id, body", "names of the members");
    }
    jsonl_destroy(jsonl);
    return done_testing();
}
