/* SPDX-License-Identifier: Apache-2.0 */
#include "base/core/remedy.h"
#include "tap.h"

#include <string.h>

int main(void)
{
    static const char *table[REMEDY_COUNT];
    struct error err;
    char text[sizeof(err.text) + 100];

    for (int i = 0; i < REMEDY_COUNT; i++)
        table[i] = i == REMEDY_SPLIT ? "change --split" : "do something else";
    error_set_code(&err, ERROR_USAGE, "data split a is wrong");
    is_int(error_remedy(&err, REMEDY_SPLIT), -1, "it is still an error");
    is(err.text, "data split a is wrong; see the manual", "without a table");

    remedy_set_table(table);
    error_set_code(&err, ERROR_USAGE, "data split a is wrong");
    error_remedy(&err, REMEDY_SPLIT);
    is(err.text, "data split a is wrong; change --split", "with the words of the table");
    is_int(err.code, ERROR_USAGE, "the code does not change");
    is(remedy_words(REMEDY_LOAD), "do something else", "words for a warning");
    is_int(error_remedy(NULL, REMEDY_SPLIT), -1, "without an error to fill");
    is_int(error_set_remedy(&err, REMEDY_SPLIT, "%d parts", 7), -1, "text and remedy at once");
    is(err.text, "7 parts; change --split", "  both are there");
    is_int(error_set_remedy(NULL, REMEDY_SPLIT, "%d parts", 7), -1,
           "  or without an error to fill");
    is_int(error_memory(&err, "%d words", 7), -1, "no memory");
    is(err.text, "out of memory for 7 words; do something else", "names what it was for");
    is_int(error_memory(NULL, "%d words", 7), -1, "also without an error to fill");

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    error_set(&err, "%s", text);
    error_remedy(&err, REMEDY_SPLIT);
    is_int((int)strlen(err.text), (int)sizeof(err.text) - 1, "a text that is too long");
    is(strstr(err.text, "; "), "; change --split", "is cut, not the remedy");
    return done_testing();
}
