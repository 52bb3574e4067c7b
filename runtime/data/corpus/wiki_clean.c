/* SPDX-License-Identifier: Apache-2.0 */
/* The clean look: text for language models, what a reader of the page would read. */
#include "config.h"
#include "wiki_expand.h"
#include "wiki_inline.h"
#include "wiki_looks.h"

#include <stdbool.h>
#include <stdio.h>

/* --- Tables ----------------------------------------------------------------------------------- */

/* The attributes of a cell end at the first pipe outside links. */
static struct wiki_span cell_text(struct wiki_span cell)
{
    const char *end = cell.data + cell.size;

    for (const char *at = cell.data; at < end; at++) {
        if (*at == '[' && at + 1 < end && at[1] == '[')
            break;
        if (*at == '|')
            return wiki_trim(wiki_span(at + 1, (size_t)(end - at - 1)));
    }
    return wiki_trim(cell);
}

static void put_cell(struct wiki_buffer *out, struct wiki_span cell, int *cells)
{
    cell = cell_text(cell);
    if (cell.size == 0)
        return;
    wiki_put_text(out, (*cells)++ > 0 ? " \x06&#124; " : "\n"); /* WIKI_CELL */
    wiki_put(out, cell.data, cell.size);
}

/* A table line with cells: `| a || b` or `! a !! b`. */
static void put_cells(struct wiki_buffer *out, struct wiki_span line, int *cells)
{
    const char *at = line.data + 1, *end = line.data + line.size;
    int header = line.data[0] == '!';

    for (;;) {
        const char *stop = wiki_find(at, end, "||"),
                   *other = header ? wiki_find(at, end, "!!") : NULL;

        if (other && (!stop || other < stop))
            stop = other;
        put_cell(out, wiki_span(at, (size_t)((stop ? stop : end) - at)), cells);
        if (!stop)
            return;
        at = stop + 2;
    }
}

static void put_table_line(struct wiki_buffer *out, struct wiki_span line, int *cells)
{
    if (line.size == 0)
        return;
    if (line.size >= 2 && line.data[0] == '|' && (line.data[1] == '-' || line.data[1] == '}')) {
        *cells = 0;
    } else if (line.size >= 2 && line.data[0] == '|' && line.data[1] == '+') {
        *cells = 0;
        put_cell(out, wiki_span(line.data + 2, line.size - 2), cells);
        *cells = 0;
    } else if (line.data[0] == '|' || line.data[0] == '!') {
        put_cells(out, line, cells);
    } else if (!(line.size >= 2 && line.data[0] == '{' && line.data[1] == '|')) {
        wiki_put_char(out, ' ');
        wiki_put(out, line.data, line.size);
    }
}

static struct wiki_span next_line(const char **at, const char *end)
{
    const char *stop = memchr(*at, '\n', (size_t)(end - *at)), *from = *at;

    *at = stop ? stop + 1 : end;
    return wiki_span(from, (size_t)((stop ? stop : end) - from));
}

static struct wiki_span without_indent(struct wiki_span line)
{
    while (line.size > 0 && (*line.data == ' ' || *line.data == ':' || *line.data == '\t')) {
        line.data++;
        line.size--;
    }
    return line;
}

/* Find the closed tables: 'cuts' receives the start and end of each outermost one. */
static void find_tables(struct wiki_look *look, const struct wiki_buffer *in)
{
    const char *at = in->data, *end = at + in->size;

    look->cuts.count = look->stack.count = 0;
    while (at < end) {
        const char *begin = at;
        struct wiki_span line = without_indent(next_line(&at, end));

        if (line.size >= 2 && memcmp(line.data, "{|", 2) == 0) {
            wiki_cut_add(&look->stack, (size_t)(begin - in->data), 0, WIKI_CUT_DROP, 0);
        } else if (line.size >= 2 && memcmp(line.data, "|}", 2) == 0 && look->stack.count > 0) {
            wiki_cut_close(&look->cuts, &look->stack, (size_t)(line.data + 2 - in->data));
        }
    }
}

static void tables(struct wiki_look *look, const struct wiki_buffer *in, struct wiki_buffer *out)
{
    size_t at = 0;

    if (!wiki_find(in->data, in->data + in->size, "{|")) {
        wiki_put(out, in->data, in->size);
        return;
    }
    find_tables(look, in);
    for (size_t i = 0; i < look->cuts.count; i++) {
        const struct wiki_cut *cut = &look->cuts.items[i];
        const char *from = in->data + cut->begin, *end = in->data + cut->end;
        int cells = 0;

        wiki_put(out, in->data + at, cut->begin - at);
        while (look->options->tables == WIKI_TABLES_TEXT && from < end)
            put_table_line(out, without_indent(next_line(&from, end)), &cells);
        at = cut->end;
    }
    wiki_put(out, in->data + at, in->size - at);
}

/* --- Lines ------------------------------------------------------------------------------------ */

struct lines {
    struct wiki_buffer *out;
    struct wiki_span headings[WIKI_LEVELS];
    int numbers[WIKI_LEVELS]; /* of the list at each depth */
    int blank;                /* put an empty line before the next text */
    int list;                 /* the last line was a list item */
};

static void put_words(struct wiki_buffer *out, struct wiki_span words)
{
    size_t from = out->size;

    wiki_put(out, words.data, words.size);
    if (!memchr(words.data, WIKI_RAW_SPACE, words.size))
        return;
    for (; from < out->size; from++)
        if (out->data[from] == WIKI_RAW_SPACE)
            out->data[from] = ' ';
}

static void put_break(struct lines *lines, int blank)
{
    if (lines->out->size > 0)
        wiki_put_text(lines->out, blank ? "\n\n" : "\n");
}

static void put_pending(struct lines *lines)
{
    for (int i = 0; i < WIKI_LEVELS; i++) {
        if (lines->headings[i].size == 0)
            continue;
        put_break(lines, 1);
        put_words(lines->out, lines->headings[i]);
        lines->headings[i].size = 0;
        lines->blank = 1;
    }
}

/* The number of list markers at the start of a line. */
static size_t list_markers(struct wiki_span line)
{
    size_t count = 0;

    while (count < line.size && strchr("*#;:", line.data[count]) && line.data[count])
        count++;
    return count;
}

static void put_item(struct lines *lines, struct wiki_span line, size_t markers)
{
    struct wiki_span words = wiki_trim(wiki_span(line.data + markers, line.size - markers));
    size_t depth = markers < WIKI_LEVELS ? markers : WIKI_LEVELS - 1;
    char last = line.data[markers - 1];

    if (words.size == 0)
        return;
    put_pending(lines);
    put_break(lines, lines->blank && !lines->list);
    for (size_t i = depth + 1; i < WIKI_LEVELS; i++)
        lines->numbers[i] = 0;
    if (last == '*' || last == '#')
        for (size_t i = 1; i < depth; i++)
            wiki_put_text(lines->out, "  ");
    if (last == '*') {
        wiki_put_text(lines->out, "- ");
    } else if (last == '#') {
        char number[16];

        snprintf(number, sizeof(number), "%d. ", ++lines->numbers[depth]);
        wiki_put_text(lines->out, number);
    }
    put_words(lines->out, words);
    lines->blank = 0;
    lines->list = 1;
}

static bool is_rule(struct wiki_span line)
{
    for (size_t i = 0; i < line.size; i++)
        if (line.data[i] != '-')
            return false;
    return line.size >= 4;
}

static void put_text_line(struct lines *lines, struct wiki_span line)
{
    int raw = line.data[0] == WIKI_RAW_LINE;

    if (raw) {
        line.data++;
        line.size--;
    } else if (is_rule(line) || (line.size >= 2 && memcmp(line.data, "{|", 2) == 0) ||
               (line.data[0] == '|' && line.size < 200) ||
               (line.data[0] == '!' && line.size > 1 &&
                (line.data[1] == '!' || line.data[1] == ' ')))
        return;
    put_pending(lines);
    put_break(lines, lines->blank || lines->list);
    put_words(lines->out, line);
    lines->blank = lines->list = 0;
    memset(lines->numbers, 0, sizeof(lines->numbers));
}

/* Also recognizes headings with one equals sign. */
static int heading_level(struct wiki_span line, struct wiki_span *words)
{
    int level = wiki_heading(line, words);

    if (level > 0 || line.size < 3 || line.data[0] != '=' || line.data[line.size - 1] != '=')
        return level;
    *words = wiki_trim(wiki_span(line.data + 1, line.size - 2));
    return 1;
}

static void put_lines(const struct wiki_buffer *in, struct wiki_buffer *out)
{
    const char *at = in->data, *end = at + in->size;
    struct lines lines = {.out = out, .blank = 1};

    while (at < end) {
        struct wiki_span line = wiki_trim(next_line(&at, end)), words;
        size_t markers;
        int level;

        if (line.size == 0) {
            lines.blank = 1;
            continue;
        }
        level = line.data[0] == '=' ? heading_level(line, &words) : 0;
        if (level > 0) {
            for (int i = level; i < WIKI_LEVELS; i++)
                lines.headings[i].size = 0;
            lines.headings[level] = words;
            continue;
        }
        markers = list_markers(line);
        if (markers > 0)
            put_item(&lines, line, markers);
        else
            put_text_line(&lines, line);
    }
}

void wiki_look_clean(struct wiki_look *look, const struct wiki_page_info *page)
{
    struct wiki_buffer *a = &look->a, *b = &look->b;

    b->size = 0;
    wiki_expand(look, page, a, b, WIKI_EXPAND_ALL);
    a->size = 0;
    tables(look, b, a);
    b->size = 0;
    wiki_inline(look, page, a, b);
    wiki_quotes(b);
    a->size = 0;
    wiki_characters(b, a);
    if (!look->options->no_title && page->title.size > 0)
        wiki_put(&look->out, page->title.data, page->title.size);
    look->head = look->out.size;
    put_lines(a, &look->out);
}
