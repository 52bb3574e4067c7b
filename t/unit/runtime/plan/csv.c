/* SPDX-License-Identifier: Apache-2.0 */
/* Lines and fields of CSV files. */
#include <stdio.h>
#include <string.h>
#include "csv.h"
#include "tap.h"

/* The fields of a line with '|' between them, or the error. */
static const char *cut(const char *line, char separator)
{
    static char out[512];
    char text[256];
    struct csv_line fields;
    struct error err;
    size_t length = 0;

    snprintf(text, sizeof(text), "%s", line);
    if (csv_cut(&fields, text, separator, &err) < 0)
        return strcpy(out, err.text);
    out[0] = '\0';
    for (int i = 0; i < fields.count; i++)
        length += (size_t)snprintf(out + length, sizeof(out) - length, "%s%s", i ? "|" : "",
                                   fields.fields[i]);
    return out;
}

static void test_fields(void)
{
    static const struct {
        const char *line;
        char separator;
        const char *fields;
    } rows[] = {
        {"a,b,c", ',', "a|b|c"},
        {"", ',', ""},
        {",", ',', "|"},
        {"a,,c,", ',', "a||c|"},
        {" a , b b ,\tc\t", ',', "a|b b|c"},
        {"\"a\",b", ',', "a|b"},
        {"\"a,b\",c", ',', "a,b|c"},
        {"\"say \"\"no\"\"\",c", ',', "say \"no\"|c"},
        {"\"\",c", ',', "|c"},
        {"\"\"\"\"", ',', "\""},
        {" \" a \" ,c", ',', " a |c"},
        {"a\"b\",c", ',', "a\"b\"|c"},
        {"\"a\"b,c", ',', "a|c"},
        {"\"a,b", ',', "a quoted field is not closed"},
        {"\"", ',', "a quoted field is not closed"},
        {"\"a\"\"", ',', "a quoted field is not closed"},
        {"a;b,c", ';', "a|b,c"},
        {"a\t\tb", '\t', "a||b"},
        {"\t", '\t', "|"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is(cut(rows[i].line, rows[i].separator), rows[i].fields, rows[i].line);
}

static void test_many(void)
{
    char line[2 * CSV_FIELDS + 1];

    memset(line, ',', sizeof(line));
    line[CSV_FIELDS - 1] = '\0';
    is_int((int)strlen(cut(line, ',')), CSV_FIELDS - 1, "as many fields as there may be");
    line[CSV_FIELDS - 1] = ',';
    line[CSV_FIELDS] = '\0';
    is(cut(line, ','), "the line has more than 64 fields", "and one more");
}

static void test_separator(void)
{
    is_int(csv_separator("a,b;c"), ',', "a comma is the separator");
    is_int(csv_separator("a;b\tc"), ';', "otherwise a semicolon");
    is_int(csv_separator("a\tb"), '\t', "otherwise a tab");
    is_int(csv_separator("a"), ',', "one column has none");
}

static void test_lines(void)
{
    char text[] = "\xef\xbb\xbf"
                  "a\r\nb\n\nc\rd\n";
    char *next = text;

    is(csv_next(&next), "a", "a line after a byte order mark");
    is(csv_next(&next), "b", "after CR LF");
    is(csv_next(&next), "", "an empty line");
    is(csv_next(&next), "c", "after LF");
    is(csv_next(&next), "d", "after CR");
    is(csv_next(&next), "", "after the last line end");
    ok(csv_next(&next) == NULL, "the end");
}

int main(void)
{
    test_fields();
    test_many();
    test_separator();
    test_lines();
    return done_testing();
}
