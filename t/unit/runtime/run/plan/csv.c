/* SPDX-License-Identifier: Apache-2.0 */
/* Lines and fields of CSV files. */
#include <stdio.h>
#include <string.h>
#include "run/plan/csv.h"
#include "tap.h"

/* The fields of a line with '|' between them, or the error. */
static const char *cut(const char *line, char separator)
{
    static char out[512];
    char text[256];
    struct csv_line fields = {0};
    struct error err;
    size_t length = 0;
    int rc;

    snprintf(text, sizeof(text), "%s", line);
    rc = csv_cut(&fields, text, separator, &err);
    out[0] = '\0';
    for (size_t i = 0; i < fields.count && rc == 0; i++)
        length += (size_t)snprintf(out + length, sizeof(out) - length, "%s%s", i ? "|" : "",
                                   fields.fields[i]);
    csv_line_clear(&fields);
    return rc == 0 ? out : strcpy(out, err.text);
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
    enum { MANY = 5000 };
    char line[MANY];
    struct csv_line fields = {0};
    struct error err;

    memset(line, ',', sizeof(line) - 1);
    line[MANY - 2] = 'z';
    line[MANY - 1] = '\0';
    is_int(csv_cut(&fields, line, ',', &err), 0, "a line may have many fields");
    is_int((int)fields.count, MANY - 1, "  and all are found");
    is(fields.fields[MANY - 2], "z", "  up to the last");
    csv_line_clear(&fields);
}

/* What a caller needs to close the quote and to add the fields that follow. */
static void test_open(void)
{
    char open[] = "a,\"b,c", closed[] = "a,\"b,c\"";
    struct csv_line fields = {0};
    struct error err;

    csv_cut(&fields, open, ',', &err);
    is_int(fields.open, 1, "an open quote is reported");
    is_int((int)fields.count, 2, "  and the rest of the line is one field");
    is_int(csv_cut(&fields, closed, ',', &err), 0, "the next line can be cut");
    is_int(fields.open, 0, "  and has no open quote");
    csv_line_clear(&fields);
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
    test_open();
    test_separator();
    test_lines();
    return done_testing();
}
