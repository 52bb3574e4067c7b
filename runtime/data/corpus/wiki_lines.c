/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "wiki_lines.h"
#include "mediawiki.h"
#include "wiki_site.h"

#include <inttypes.h>
#include <stdio.h>

enum { BLOCK_SIZE = 256 << 10, LONG_PAGE = 4 << 20 };

/* The state of a call. */
struct reading {
    const struct wiki_lines *lines;
    struct wiki_counts *counts;
    struct wikitext *wikitext;
    struct wiki_buffer text;
};

void wiki_counts_add(struct wiki_counts *sum, const struct wiki_counts *more)
{
    sum->documents += more->documents;
    sum->bytes += more->bytes;
    for (int i = 0; i < FAULT_COUNT; i++)
        sum->faults[i] += more->faults[i];
}

static int64_t sum_faults(const struct wiki_counts *counts, int begin, int end)
{
    int64_t sum = 0;

    for (int i = begin; i < end; i++)
        sum += counts->faults[i];
    return sum;
}

int64_t wiki_counts_skipped(const struct wiki_counts *counts)
{
    return sum_faults(counts, 1, FAULT_BROKEN_END);
}

int64_t wiki_counts_left_out(const struct wiki_counts *counts)
{
    return sum_faults(counts, FAULT_BROKEN_END, FAULT_LEFT_OUT_END);
}

int64_t wiki_counts_unclosed(const struct wiki_counts *counts)
{
    return sum_faults(counts, FAULT_LEFT_OUT_END, FAULT_COUNT);
}

int wiki_counts_check(const struct wiki_counts *counts, struct error *err)
{
    int64_t skipped = wiki_counts_skipped(counts);

    if (counts->documents > 0 || wiki_counts_left_out(counts) > 0)
        return 0;
    if (skipped == 1)
        error_set_code(err, ERROR_USAGE, "the input's only page is broken");
    else if (skipped > 0)
        error_set_code(err, ERROR_USAGE, "none of the input's %" PRId64 " pages is intact",
                       skipped);
    else
        error_set_code(err, ERROR_USAGE, "the input has no complete page");
    return error_append(err, "; check that its files are MediaWiki dumps, and copy truncated ones "
                             "again");
}

/* The characters that JSON escapes. */
static inline wiki_matches escapes(wiki_bytes bytes)
{
    return wiki_in(bytes, 0, ' ' - 1) | (bytes == '"') | (bytes == '\\');
}

static void put_json(struct wiki_buffer *out, struct wiki_span text)
{
    static const char letters[32] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};

    wiki_put_char(out, '"');
    for (const char *at = text.data, *end = at + text.size; at < end;) {
        const char *from = at;
        unsigned char c;
        char escape[8];

        at = wiki_find_mark(at, end, escapes);
        wiki_put(out, from, (size_t)(at - from));
        if (at == end)
            break;
        c = (unsigned char)*at++;
        if (c >= ' ' || letters[c]) {
            wiki_put_char(out, '\\');
            wiki_put_char(out, c >= ' ' ? (char)c : letters[c]);
            continue;
        }
        snprintf(escape, sizeof(escape), "\\u%04x", c);
        wiki_put_text(out, escape);
    }
    wiki_put_char(out, '"');
}

static void put_document(struct wiki_buffer *out, const struct wiki_document *document,
                         const struct wiki_site *site)
{
    char text[512];

    snprintf(text, sizeof(text),
             "{\"id\": \"%lld\", \"revid\": \"%lld\", \"url\": ", (long long)document->id,
             (long long)document->revision);
    wiki_put_text(out, text);
    snprintf(text, sizeof(text), "%s?curid=%lld", site->base, (long long)document->id);
    put_json(out, wiki_span(text, strlen(text)));
    wiki_put_text(out, ", \"title\": ");
    put_json(out, document->title);
    wiki_put_text(out, ", \"text\": ");
    put_json(out, document->text);
    wiki_put_text(out, "}\n");
}

static int fail_strictly(const char *sentence, struct error *err)
{
    error_set_code(err, ERROR_USAGE, "%s", sentence);
    return error_append(err, "; drop --strict to skip what is invalid");
}

/* Format a warning about a page: file, title, location, fault and what happens to it. */
static void describe(struct reading *reading, const struct record_block *block, int64_t line,
                     struct wiki_span title, const char *what, const char *then, char *sentence,
                     size_t size)
{
    const struct segment *segment = &reading->lines->segments[block->segment];
    const struct corpus_file *file = &reading->lines->files->items[segment->file];
    int plain = file->codec == CODEC_PLAIN;
    char where[64] = "";

    if (!plain && segment->begin > 0)
        snprintf(where, sizeof(where), " after byte %lld", (long long)segment->begin);
    snprintf(sentence, size, "%.600s: page \"%.*s\" at %s %lld%s: %s%s", file->path,
             title.size < 200 ? (int)title.size : 200, title.data ? title.data : "",
             plain ? "byte" : "decompressed byte",
             (long long)(block->first_line + line + (plain ? segment->begin : 0)), where, what,
             reading->lines->strict ? "" : then);
}

static int tell_fault(struct reading *reading, const struct record_block *block, int64_t line,
                      enum document_fault fault, struct wiki_span title, struct error *err)
{
    char sentence[1024];

    describe(reading, block, line, title, document_fault_text(fault), "; skipped", sentence,
             sizeof(sentence));
    if (reading->lines->strict)
        return fail_strictly(sentence, err);
    reading->lines->warn(reading->lines->context, sentence);
    return 0;
}

static int tell_unclosed(struct reading *reading, const struct record_block *block, int64_t line,
                         const struct wiki_document *document, struct error *err)
{
    const struct wiki_unclosed *unclosed = &document->unclosed;
    char what[80], sentence[1024];

    if (unclosed->fault == FAULT_NONE)
        return 0;
    reading->counts->faults[unclosed->fault]++;
    wiki_unclosed_text(unclosed, what, sizeof(what));
    describe(reading, block, line + (int64_t)unclosed->place, document->title, what,
             "; the page is kept", sentence, sizeof(sentence));
    if (reading->lines->strict)
        return fail_strictly(sentence, err);
    reading->lines->unclosed(reading->lines->context, sentence);
    return 0;
}

static int read_page(struct reading *reading, const struct record_block *block,
                     const struct record *record, struct error *err)
{
    struct wiki_document document;
    enum document_fault fault =
        wikitext_page(reading->wikitext, record->data, record->size, block->site, &document);

    if (fault == FAULT_NONE) {
        reading->counts->documents++;
        put_document(&reading->text, &document, block->site);
        if (record->size > LONG_PAGE)
            wikitext_trim(reading->wikitext);
        return tell_unclosed(reading, block, record->line, &document, err);
    }
    reading->counts->faults[fault]++;
    if (fault >= FAULT_BROKEN_END)
        return 0;
    return tell_fault(reading, block, record->line, fault, document.title, err);
}

static int read_block(struct reading *reading, const struct record_block *block, struct error *err)
{
    struct record_cursor cursor = {0, 0};
    struct record record;

    if (block->too_long) {
        struct wiki_page page;

        mediawiki_page(block->data, block->head, &page);
        reading->counts->faults[FAULT_LENGTH]++;
        return tell_fault(reading, block, 0, FAULT_LENGTH, page.title, err);
    }
    reading->counts->bytes += block->lines;
    while (record_next(RECORD_PAGE, block, &cursor, &record))
        if (read_page(reading, block, &record, err) < 0)
            return -1;
    return 0;
}

/* Pass on the lines of a block and the faults of its file. */
static int pass_on(struct reading *reading, struct record_reader *reader, struct error *err)
{
    const struct wiki_lines *lines = reading->lines;
    const char *flaw;
    int rc;

    rc = lines->take(lines->context, wiki_span(reading->text.data, reading->text.size), err);
    wiki_buffer_reset(&reading->text);
    while (rc == 0 && (flaw = record_reader_flaw(reader))) {
        if (lines->strict)
            rc = fail_strictly(flaw, err);
        else
            lines->flaw(lines->context, flaw);
    }
    return rc;
}

int wiki_lines_read(const struct wiki_lines *lines, struct wiki_counts *counts, struct error *err)
{
    struct reading reading = {.lines = lines, .counts = counts};
    struct record_block block = {0};
    struct record_reader *reader = record_reader_create(lines->files, lines->segments, lines->count,
                                                        RECORD_PAGE, BLOCK_SIZE, lines->max_page);
    int rc = 1;

    reading.wikitext = wikitext_create(lines->wiki);
    while (rc > 0) {
        rc = record_reader_next(reader, &block, err);
        if ((rc > 0 && read_block(&reading, &block, err) < 0) ||
            (rc >= 0 && pass_on(&reading, reader, err) < 0))
            rc = -1;
    }
    record_block_clear(&block);
    record_reader_destroy(reader);
    wikitext_destroy(reading.wikitext);
    wiki_buffer_clear(&reading.text);
    return rc;
}
