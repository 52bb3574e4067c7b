/* SPDX-License-Identifier: Apache-2.0 */
/* Prints statistics as text, JSON and a self-contained HTML page. */
#include "config.h"
#include "stats.h"
#include "lib/file.h"
#include "lines.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_LANGUAGES = 20 };

/* List the kinds of lengths. Returns their number. */
struct kind {
    const char *name;
    const struct stats_lengths *lengths;
};

static size_t list_kinds(const struct stats *stats, struct kind kinds[3])
{
    kinds[0] = (struct kind){"characters", &stats->chars};
    kinds[1] = (struct kind){"words", &stats->words};
    kinds[2] = (struct kind){"tokens", &stats->tokens};
    return stats->has_tokens ? 3 : 2;
}

static double mean(const struct stats *stats, const struct stats_lengths *lengths)
{
    return stats->tally.documents > 0 ? (double)lengths->sum / (double)stats->tally.documents : 0;
}

/* The range of lengths of a bin. */
static void bin_range(int bin, int64_t *first, int64_t *last)
{
    *first = bin == 0 ? 0 : (int64_t)1 << (bin - 1);
    *last = bin == 0 ? 0 : ((int64_t)1 << bin) - 1;
}

/* --- Lines ------------------------------------------------------------------------------------ */

static void print_bins(const struct kind *kind)
{
    int64_t most = 1;

    for (int i = 0; i < STATS_BINS; i++)
        most = kind->lengths->bins[i] > most ? kind->lengths->bins[i] : most;
    printf("  lengths of documents, in %s:\n", kind->name);
    for (int i = 0; i < STATS_BINS; i++) {
        int64_t first, last, count = kind->lengths->bins[i];
        char range[48];

        if (count == 0)
            continue;
        bin_range(i, &first, &last);
        snprintf(range, sizeof(range), "%" PRId64 " - %" PRId64, first, last);
        printf("    %24s %12" PRId64 " %.*s\n", range, count, (int)(count * 40 / most),
               "****************************************");
    }
}

void stats_print(const struct stats *stats)
{
    struct kind kinds[3];
    size_t count = list_kinds(stats, kinds);

    tally_print(&stats->tally);
    for (size_t i = 0; i < count; i++)
        printf("  %-16s %" PRId64 "; per document %" PRId64 " to %" PRId64 ", %.1f on average\n",
               kinds[i].name, kinds[i].lengths->sum,
               kinds[i].lengths->shortest < 0 ? 0 : kinds[i].lengths->shortest,
               kinds[i].lengths->longest, mean(stats, kinds[i].lengths));
    if (stats->has_duplicates)
        printf("  duplicates:      %" PRId64 " of %" PRId64
               " texts; the most frequent text occurs %" PRId64 " time%s\n",
               stats->duplicates.duplicates, stats->duplicates.clusters, stats->duplicates.largest,
               stats->duplicates.largest == 1 ? "" : "s");
    print_bins(&kinds[count - 1]);
    if (stats->language_count > 0)
        printf("  languages:\n");
    for (size_t i = 0; i < stats->language_count && i < SHOWN_LANGUAGES; i++)
        printf("    %-12s %12" PRId64 " documents %8.3f GB\n", stats->languages[i].label,
               stats->languages[i].documents, (double)stats->languages[i].bytes / 1e9);
}

/* --- Files ------------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static void put(struct line_buffer *out, const char *format,
                                                      ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    line_put_word(out, text);
}

static int save(struct line_buffer *out, const char *path, struct error *err)
{
    int rc = file_write_whole(path, out->data, out->size, FILE_SYNC_DIRECTORY, err);

    line_buffer_clear(out);
    return rc;
}

static void put_lengths(struct line_buffer *out, const struct stats *stats, const struct kind *kind)
{
    int any = 0;

    put(out,
        ",\n  \"%s\": {\"sum\": %" PRId64 ", \"shortest\": %" PRId64 ", \"longest\": %" PRId64
        ", \"mean\": %.3f, \"histogram\": [",
        kind->name, kind->lengths->sum, kind->lengths->shortest < 0 ? 0 : kind->lengths->shortest,
        kind->lengths->longest, mean(stats, kind->lengths));
    for (int i = 0; i < STATS_BINS; i++) {
        int64_t first, last;

        bin_range(i, &first, &last);
        if (kind->lengths->bins[i] > 0)
            put(out, "%s[%" PRId64 ", %" PRId64 ", %" PRId64 "]", any++ ? ", " : "", first, last,
                kind->lengths->bins[i]);
    }
    put(out, "]}");
}

int stats_write_json(const struct stats *stats, const char *path, struct error *err)
{
    struct line_buffer out = {0};
    struct kind kinds[3];
    size_t count = list_kinds(stats, kinds);

    put(&out,
        "{\n  \"documents\": %" PRId64 ",\n  \"text_bytes\": %" PRId64
        ",\n  \"broken_lines\": %" PRId64,
        stats->tally.documents, stats->tally.text_bytes, tally_faults(&stats->tally));
    for (size_t i = 0; i < count; i++)
        put_lengths(&out, stats, &kinds[i]);
    if (stats->has_duplicates)
        put(&out,
            ",\n  \"duplicates\": {\"documents\": %" PRId64 ", \"texts\": %" PRId64
            ", \"largest\": %" PRId64 "}",
            stats->duplicates.duplicates, stats->duplicates.clusters, stats->duplicates.largest);
    put(&out, ",\n  \"languages\": [");
    for (size_t i = 0; i < stats->language_count; i++) {
        put(&out, "%s\n    {\"label\": ", i ? "," : "");
        line_put_string(&out, stats->languages[i].label, strlen(stats->languages[i].label));
        put(&out, ", \"documents\": %" PRId64 ", \"bytes\": %" PRId64 "}",
            stats->languages[i].documents, stats->languages[i].bytes);
    }
    put(&out, "]\n}\n");
    return save(&out, path, err);
}

/* --- Page ------------------------------------------------------------------------------------- */

static void put_escaped(struct line_buffer *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            line_put_word(out, "&lt;");
            break;
        case '>':
            line_put_word(out, "&gt;");
            break;
        case '&':
            line_put_word(out, "&amp;");
            break;
        case '"':
            line_put_word(out, "&quot;");
            break;
        default:
            line_put(out, text, 1);
        }
}

/* Draw a row of a bar chart: label, bar, count. */
static void put_bar(struct line_buffer *out, int row, const char *label, int64_t count,
                    int64_t most)
{
    double width = most > 0 ? 440.0 * (double)count / (double)most : 0;
    int y = 22 * row;

    put(out, "<text x=\"170\" y=\"%d\" text-anchor=\"end\">", y + 15);
    put_escaped(out, label);
    put(out, "</text><rect x=\"180\" y=\"%d\" width=\"%.1f\" height=\"16\"/>", y + 2, width);
    put(out, "<text x=\"%.1f\" y=\"%d\">%" PRId64 "</text>\n", 186 + width, y + 15, count);
}

static void begin_chart(struct line_buffer *out, const char *title, int rows)
{
    put(out, "<h2>%s</h2>\n<svg role=\"img\" width=\"760\" height=\"%d\" viewBox=\"0 0 760 %d\">\n",
        title, 22 * rows + 4, 22 * rows + 4);
}

static void put_histogram(struct line_buffer *out, const struct kind *kind)
{
    int64_t most = 0;
    int rows = 0, row = 0;
    char title[64];

    for (int i = 0; i < STATS_BINS; i++) {
        most = kind->lengths->bins[i] > most ? kind->lengths->bins[i] : most;
        rows += kind->lengths->bins[i] > 0;
    }
    snprintf(title, sizeof(title), "Documents by length in %s", kind->name);
    begin_chart(out, title, rows);
    for (int i = 0; i < STATS_BINS; i++) {
        int64_t first, last;
        char label[48];

        if (kind->lengths->bins[i] == 0)
            continue;
        bin_range(i, &first, &last);
        snprintf(label, sizeof(label), "%" PRId64 " - %" PRId64, first, last);
        put_bar(out, row++, label, kind->lengths->bins[i], most);
    }
    put(out, "</svg>\n");
}

static void put_languages(struct line_buffer *out, const struct stats *stats)
{
    size_t count =
        stats->language_count < SHOWN_LANGUAGES ? stats->language_count : (size_t)SHOWN_LANGUAGES;

    if (count == 0)
        return;
    begin_chart(out, "Documents by language", (int)count);
    for (size_t i = 0; i < count; i++)
        put_bar(out, (int)i, stats->languages[i].label, stats->languages[i].documents,
                stats->languages[0].documents);
    put(out, "</svg>\n");
}

int stats_write_html(const struct stats *stats, const char *title, const char *path,
                     struct error *err)
{
    struct line_buffer out = {0};
    struct kind kinds[3];
    size_t count = list_kinds(stats, kinds);

    put(&out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Corpus: ");
    put_escaped(&out, title);
    put(&out, "</title>\n<style>body{font:14px sans-serif;margin:2em auto;max-width:60em}"
              "table{border-collapse:collapse}td,th{padding:.2em 1em;text-align:right}"
              "th{text-align:left}svg{font:12px sans-serif}rect{fill:#4a7fb5}</style></head><body>"
              "\n<h1>Corpus: ");
    put_escaped(&out, title);
    put(&out, "</h1>\n<table>\n<tr><th>documents</th><td>%" PRId64 "</td></tr>\n",
        stats->tally.documents);
    put(&out, "<tr><th>bytes of text</th><td>%" PRId64 "</td></tr>\n", stats->tally.text_bytes);
    put(&out, "<tr><th>broken lines</th><td>%" PRId64 "</td></tr>\n", tally_faults(&stats->tally));
    for (size_t i = 0; i < count; i++)
        put(&out, "<tr><th>%s</th><td>%" PRId64 "</td><td>%.1f per document</td></tr>\n",
            kinds[i].name, kinds[i].lengths->sum, mean(stats, kinds[i].lengths));
    if (stats->has_duplicates)
        put(&out, "<tr><th>duplicates</th><td>%" PRId64 "</td><td>of %" PRId64 " texts</td></tr>\n",
            stats->duplicates.duplicates, stats->duplicates.clusters);
    put(&out, "</table>\n");
    for (size_t i = 0; i < count; i++)
        put_histogram(&out, &kinds[i]);
    put_languages(&out, stats);
    put(&out, "</body></html>\n");
    return save(&out, path, err);
}
