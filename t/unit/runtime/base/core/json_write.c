/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON writer: commas, indentation, escapes, numbers, and both destinations. */
#include "base/core/json_write.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>

static const struct {
    const char *name, *text, *expected;
    size_t size;
} strings[] = {
    {"plain", "a b/c", "\"a b/c\"", 5},
    {"empty", "", "\"\"", 0},
    {"quote and backslash", "\"\\", "\"\\\"\\\\\"", 2},
    {"controls", "\n\t\r\x01\x1f\x7f", "\"\\n\\t\\r\\u0001\\u001f\x7f\"", 6},
    {"NUL inside", "a\0b", "\"a\\u0000b\"", 3},
    {"UTF-8 of two, three and four bytes", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80",
     "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"", 9},
    {"stray continuation", "a\x80z", "\"a\xEF\xBF\xBDz\"", 3},
    {"cut character", "\xE2\x82", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"", 2},
    {"overlong form", "\xC0\xAF", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"", 2},
    {"surrogate", "\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"", 3},
    {"beyond U+10FFFF", "\xF4\x90\x80\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"",
     4},
};

/* What the writer collected, as a string. The writer is cleared. */
static const char *taken(struct json_writer *json)
{
    static char text[1024];

    snprintf(text, sizeof(text), "%.*s", (int)json->size, json->data ? json->data : "");
    json_writer_clear(json);
    return text;
}

/* The same values in each form. */
static void put_values(struct json_writer *json,
                       void open(struct json_writer *, const char *, char))
{
    open(json, NULL, '{');
    json_put_string(json, "s", "x");
    json_put_string(json, "n", NULL);
    json_open(json, "inner", '{');
    json_put_integer(json, "i", -7);
    json_put_bool(json, "b", true);
    json_close(json);
    open(json, "list", '[');
    json_put_number(json, NULL, 0.1, 17);
    json_put_fixed(json, NULL, 2.0 / 3, 3);
    json_close(json);
    open(json, "empty", '[');
    json_close(json);
    json_put_name(json, "a\0b", 3);
    json_put_json(json, NULL, "[1,2]", 5);
    json_put_format(json, "f", "%d of %d", 3, 4);
    json_close(json);
    json_end_line(json);
}

int main(void)
{
    struct json_writer json = {0}, spaced = {.spaced = true};
    char *text = NULL;
    size_t size;

    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        json_put_text(&json, NULL, strings[i].text, strings[i].size);
        is(taken(&json), strings[i].expected, strings[i].name);
    }

    put_values(&json, json_open);
    is(taken(&json),
       "{\"s\":\"x\",\"n\":null,\"inner\":{\"i\":-7,\"b\":true},\"list\":[0.10000000000000001,"
       "0.667],\"empty\":[],\"a\\u0000b\":[1,2],\"f\":\"3 of 4\"}\n",
       "compact");
    put_values(&spaced, json_open);
    is(taken(&spaced),
       "{\"s\": \"x\", \"n\": null, \"inner\": {\"i\": -7, \"b\": true}, \"list\": "
       "[0.10000000000000001, 0.667], \"empty\": [], \"a\\u0000b\": [1,2], \"f\": \"3 of 4\"}\n",
       "spaced");
    put_values(&spaced, json_open_lines);
    is(taken(&spaced),
       "{\n  \"s\": \"x\",\n  \"n\": null,\n  \"inner\": {\"i\": -7, \"b\": true},\n  \"list\": [\n"
       "    0.10000000000000001,\n    0.667\n  ],\n  \"empty\": [],\n  \"a\\u0000b\": [1,2],\n"
       "  \"f\": \"3 of 4\"\n}\n",
       "one member per line");

    json_put_number(&json, NULL, NAN, 6);
    is(taken(&json), "null", "not a number");
    json_put_fixed(&json, NULL, -INFINITY, 6);
    is(taken(&json), "null", "infinity");
    json_put_fixed(&json, NULL, 1e300, 6);
    ok(json.size == 308, "a large number is not cut");
    json_writer_clear(&json);

    json.stream = open_memstream(&text, &size);
    put_values(&json, json_open);
    ok(json.data == NULL, "a stream needs no buffer");
    fclose(json.stream);
    json.stream = NULL;
    put_values(&json, json_open);
    is(taken(&json), text, "the same through a stream");
    free(text);
    return done_testing();
}
