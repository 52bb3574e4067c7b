/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "base/core/file_lines.h"
#include "punkt_private.h"
#include "base/core/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_LIMIT ((size_t)1 << 26)

/* What the lines of a file look like. */
enum shape { SHAPE_WORD, SHAPE_PAIR, SHAPE_FLAGS };

static int add_line(struct word_table *table, enum shape shape, const char *line, size_t length,
                    struct error *err)
{
    const char *tab = memchr(line, '\t', length);
    int64_t flags = 1;
    size_t word = length;

    if ((shape == SHAPE_WORD) != (tab == NULL))
        return error_set(err, shape == SHAPE_WORD ? "the line has a tab, but should be one word"
                                                  : "the line has no tab");
    if (shape == SHAPE_FLAGS) {
        char number[8] = "", *end = number;

        word = (size_t)(tab - line);
        if (length - word - 1 < sizeof(number))
            memcpy(number, tab + 1, length - word - 1);
        flags = strtol(number, &end, 10);
        if (end == number || *end || flags < 0 || flags > 127)
            return error_set(err, "the text after the tab is not a number from 0 to 127");
    }
    if (word == 0)
        return error_set(err, "there is no word before the tab");
    if (word > 2 * PUNKT_LONGEST)
        return error_set(err, "the word has %zu bytes, and at most %d are supported", word,
                         2 * PUNKT_LONGEST);
    /* A word that is listed twice counts once, as in Python's sets. */
    if (word_table_find(table, line, word) == WORD_NONE)
        word_table_add(table, line, word, flags);
    return 0;
}

static int read_table(struct word_table *table, const char *directory, const char *name,
                      enum shape shape, struct error *err)
{
    char path[4096 + 64];
    struct file_bytes bytes;
    struct file_lines lines;
    int rc = 0;

    snprintf(path, sizeof(path), "%.4000s/%s", directory, name);
    if (file_read(path, FILE_LIMIT, &bytes, err) < 0)
        return -1;
    lines = file_lines(&bytes);
    while (rc == 0 && file_next_line(&lines)) {
        file_line_drop_return(&lines);
        if (lines.length > 0)
            rc = add_line(table, shape, lines.line, lines.length, err);
        if (rc < 0) {
            error_prefix(err, "%s, line %zu", path, lines.number);
            error_advise(err, "download it again (python3 -m nltk.downloader punkt_tab)");
        }
    }
    file_bytes_clear(&bytes);
    return rc;
}

struct punkt *punkt_open(const char *directory, struct error *err)
{
    struct punkt *punkt = xcalloc(1, sizeof(*punkt));

    if (read_table(&punkt->abbreviations, directory, "abbrev_types.txt", SHAPE_WORD, err) < 0 ||
        read_table(&punkt->starters, directory, "sent_starters.txt", SHAPE_WORD, err) < 0 ||
        read_table(&punkt->collocations, directory, "collocations.tab", SHAPE_PAIR, err) < 0 ||
        read_table(&punkt->context, directory, "ortho_context.tab", SHAPE_FLAGS, err) < 0) {
        punkt_close(punkt);
        return NULL;
    }
    return punkt;
}

void punkt_close(struct punkt *punkt)
{
    if (!punkt)
        return;
    word_table_clear(&punkt->abbreviations);
    word_table_clear(&punkt->starters);
    word_table_clear(&punkt->collocations);
    word_table_clear(&punkt->context);
    free(punkt);
}

/* Is DIR a language's directory? */
static int is_there(const char *directory)
{
    char path[4096 + 64];

    snprintf(path, sizeof(path), "%.4000s/ortho_context.tab", directory);
    return access(path, F_OK) == 0;
}

/* Look for a language below 'base', the whole of nltk_data or a part of it. */
static int look_in(const char *base, size_t length, const char *language, char *directory,
                   size_t size)
{
    static const char *const inner[] = {"tokenizers/punkt_tab/", "punkt_tab/", ""};

    for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++)
        if (snprintf(directory, size, "%.*s/%s%s", (int)length, base, inner[i], language) <
                (int)size &&
            is_there(directory))
            return 1;
    return 0;
}

int punkt_find(const char *path, const char *language, char *directory, size_t size,
               struct error *err)
{
    static const char *const usual[] = {"/usr/share/nltk_data", "/usr/local/share/nltk_data",
                                        "/usr/lib/nltk_data", "/usr/local/lib/nltk_data"};
    const char *list = getenv("NLTK_DATA"), *home = getenv("HOME");
    char own[4096];

    if (strchr(language, '/')) {
        error_set(err, "%.100s is not the name of a language", language);
        return error_append(err, "; give --lang, such as english");
    }
    if (path) {
        if (look_in(path, strlen(path), language, directory, size))
            return 0;
        if (snprintf(directory, size, "%s", path) < (int)size && is_there(directory))
            return 0;
        error_set(err, "%.1000s has no punkt_tab/%.100s", path, language);
        return error_append(err, "; correct --lang, or give --punkt-data");
    }
    for (; list && *list; list += strcspn(list, ":") + (strchr(list, ':') != NULL))
        if (look_in(list, strcspn(list, ":"), language, directory, size))
            return 0;
    snprintf(own, sizeof(own), "%.4000s/nltk_data", home ? home : "");
    if (home && look_in(own, strlen(own), language, directory, size))
        return 0;
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        if (look_in(usual[i], strlen(usual[i]), language, directory, size))
            return 0;
    error_set(err,
              "NLTK's punkt_tab/%.100s is in none of $NLTK_DATA, ~/nltk_data and "
              "/usr/share/nltk_data; download it (python3 -m nltk.downloader punkt_tab)",
              language);
    return error_append(err, "; correct --lang, or give --punkt-data");
}
