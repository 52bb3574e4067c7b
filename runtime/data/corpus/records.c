/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "records.h"
#include "mediawiki.h"
#include "record_private.h"
#include "wiki_site.h"
#include "base/core/xmalloc.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct record_reader {
    const struct corpus_files *files;
    const struct segment *segments;
    size_t count, at; /* 'at': the open segment, or the next one */
    enum record_mode mode;
    size_t block_size, max_record;
    struct source *source;
    /* skip up to and including the next newline: the line belongs to another segment */
    int skipping;
    int dropping; /* likewise: it belongs to a record that is too long */
    int at_start; /* at the start of the file: a byte order mark may follow */
    int64_t mark; /* bytes of the mark that were dropped */
    int ended;    /* the source has ended */
    int64_t base; /* offset of the carry's first byte in what the source delivered */
    char *carry;  /* bytes that were read but not returned yet */
    size_t carry_size, carry_capacity;
    int64_t line; /* next line of the segment */
    int64_t passed;
    /* RECORD_PAGE */
    const struct wiki_site *site;
    char **flaws;
    size_t flaw_count, flaw_told;
    int truncated;
};

int record_mode_cuts(enum record_mode mode)
{
    return mode == RECORD_JSON || mode == RECORD_LINE || mode == RECORD_PAGE ||
           mode == RECORD_EVERY;
}

struct record_reader *record_reader_create(const struct corpus_files *files,
                                           const struct segment *segments, size_t count,
                                           enum record_mode mode, size_t block_size,
                                           size_t max_record)
{
    struct record_reader *reader = xcalloc(1, sizeof(*reader));

    reader->files = files;
    reader->segments = segments;
    reader->count = count;
    reader->mode = mode;
    reader->block_size = block_size;
    reader->max_record = max_record;
    return reader;
}

void record_reader_destroy(struct record_reader *reader)
{
    if (!reader)
        return;
    source_close(reader->source);
    for (size_t i = 0; i < reader->flaw_count; i++)
        free(reader->flaws[i]);
    free(reader->flaws);
    free(reader->carry);
    free(reader);
}

static int64_t segment_size(const struct record_reader *reader, size_t number)
{
    const struct segment *segment = &reader->segments[number];
    int64_t size = reader->files->items[segment->file].size;

    return (segment->end < size ? segment->end : size) - segment->begin;
}

int64_t record_reader_passed(const struct record_reader *reader)
{
    int64_t here = 0, whole;

    if (reader->source) {
        whole = segment_size(reader, reader->at);
        here = source_position(reader->source) - reader->segments[reader->at].begin;
        here = here < whole ? here : whole;
    }
    return reader->passed + here;
}

size_t record_reader_memory(const struct record_reader *reader)
{
    return reader->carry_capacity + (reader->source ? source_memory(reader->source) : 0);
}

int64_t record_block_bytes(enum record_mode mode, const struct record_block *block)
{
    return mode == RECORD_PAGE ? block->lines : (int64_t)block->size;
}

void record_block_clear(struct record_block *block)
{
    free(block->data);
    memset(block, 0, sizeof(*block));
}

static int reserve(char **data, size_t *capacity, size_t want, struct error *err)
{
    char *larger;

    if (want + BLOCK_PADDING <= *capacity)
        return 0;
    larger = realloc(*data, want + BLOCK_PADDING);
    if (!larger)
        return error_set(err, "a record of %zu bytes: out of memory", want);
    *data = larger;
    *capacity = want + BLOCK_PADDING;
    return 0;
}

static int64_t count_newlines(const char *data, size_t size)
{
    int64_t lines = 0;
    const char *end = data + size;

    while (data < end && (data = memchr(data, '\n', (size_t)(end - data)))) {
        lines++;
        data++;
    }
    return lines;
}

/* The last line may lack a newline. */
static int64_t count_lines(const char *data, size_t size)
{
    return count_newlines(data, size) + (size > 0 && data[size - 1] != '\n');
}

static int open_segment(struct record_reader *reader, struct error *err)
{
    const struct segment *segment = &reader->segments[reader->at];
    const struct corpus_file *file = &reader->files->items[segment->file];

    reader->source =
        source_open(file->path, file->codec, strcmp(file->path, "-") == 0 ? -1 : file->size,
                    segment->begin, segment->end, err);
    if (!reader->source)
        return -1;
    reader->skipping = segment->begin > 0 && reader->mode != RECORD_PAGE;
    reader->truncated = 0;
    reader->site = NULL;
    reader->at_start = segment->begin == 0;
    reader->mark = 0;
    reader->dropping = 0;
    reader->ended = 0;
    reader->base = 0;
    reader->carry_size = 0;
    reader->line = 0;
    return 0;
}

static void close_segment(struct record_reader *reader)
{
    source_close(reader->source);
    reader->source = NULL;
    reader->passed += segment_size(reader, reader->at);
    reader->at++;
}

static void add_flaw(struct record_reader *reader, const char *sentence)
{
    reader->flaws = xrealloc(reader->flaws, reader->flaw_count + 1, sizeof(*reader->flaws));
    reader->flaws[reader->flaw_count++] = xstrdup(sentence);
}

/* The file has ended: is the dump complete? A segment may begin within the last tag. */
static void check_end(struct record_reader *reader, const struct record_block *block)
{
    static const char tag[] = "</mediawiki>";
    const struct segment *segment = &reader->segments[reader->at];
    int64_t delivered = reader->base + (int64_t)block->size;
    size_t size = block->size, length = sizeof(tag) - 1;
    struct error flaw;

    while (size > 0 && isspace((unsigned char)block->data[size - 1]))
        size--;
    if (size < length && segment->begin > 0 && reader->base == 0)
        length = size;
    if (delivered == 0 || (size >= length && memcmp(block->data + size - length,
                                                    tag + sizeof(tag) - 1 - length, length) == 0))
        return;
    error_set(&flaw, "%s is truncated: it ends at byte %lld without %s; copy it again",
              reader->files->items[segment->file].path, (long long)source_position(reader->source),
              tag);
    add_flaw(reader, flaw.text);
}

/* Read until the block holds 'want' bytes or the source ends. A truncated file is reported by the
 * segment that owns its end, not by one that only needs the rest of a page. */
static int fill(struct record_reader *reader, struct record_block *block, size_t want,
                struct error *err)
{
    if (reserve(&block->data, &block->capacity, want, err) < 0)
        return -1;
    while (block->size < want && !reader->ended) {
        struct error why;
        ssize_t count =
            source_read(reader->source, block->data + block->size, want - block->size, &why);
        int owner = reader->mode == RECORD_PAGE && source_boundary(reader->source) < 0;

        if (count < 0 && reader->mode == RECORD_PAGE && source_is_truncated(reader->source)) {
            /* The data before it are valid; the truncated page is counted as broken. */
            reader->truncated = 1;
            count = 0;
            if (owner)
                add_flaw(reader, why.text);
        } else if (count < 0 && err) {
            *err = why;
        } else if (count == 0 && owner) {
            check_end(reader, block);
        }
        if (count < 0)
            return -1;
        if (count == 0)
            reader->ended = 1;
        block->size += (size_t)count;
    }
    return 0;
}

/* Drop the first 'count' bytes of the block. */
static void drop(struct record_reader *reader, struct record_block *block, size_t count)
{
    memmove(block->data, block->data + count, block->size - count);
    block->size -= count;
    reader->base += (int64_t)count;
}

/* Pages that begin before 'cut' are owned completely. Returns where the last one ends, or -1 if
 * that is not in the block. */
static int64_t owned_pages(const struct record_reader *reader, const struct record_block *block,
                           size_t cut)
{
    const char *data = block->data, *end = data + block->size, *at = data + cut, *close, *next;

    while ((at = memrchr(data, '<', (size_t)(at - data)))) {
        if (end - at < 7)
            return -1; /* the next bytes show which tag it is */
        if (memcmp(at, "</page>", 7) == 0)
            return at + 7 > data + cut ? at + 7 - data : (int64_t)cut;
        if (mediawiki_begin(at, at + 6) == at)
            break;
    }
    if (!at)
        return (int64_t)cut;
    close = mediawiki_end(at, end);
    next = mediawiki_begin(at + 1, close ? close : end);
    /* "<page" at the end of the block may be the start of another tag. */
    if (next)
        return end - next > 5 || reader->ended ? next - data : -1;
    return close ? close - data : -1;
}

/* The number of bytes, from the block's first, that the segment owns, or -1 if its end is not in
 * the block. */
static int64_t owned(const struct record_reader *reader, const struct record_block *block)
{
    int64_t boundary = source_boundary(reader->source), from;
    const char *newline;

    if (boundary < 0)
        return -1;
    /* A cut within the byte order mark counts as one after it. */
    if (boundary < reader->mark)
        boundary = reader->mark;
    from = boundary - reader->base;
    /* The boundary line was already returned, or dropped, as the last one of this segment. */
    if (from < 0)
        return 0;
    if (from >= (int64_t)block->size)
        return -1;
    if (reader->mode == RECORD_PAGE)
        return owned_pages(reader, block, (size_t)from);
    newline = memchr(block->data + from, '\n', block->size - (size_t)from);
    return newline ? newline - block->data + 1 : -1;
}

static int save_carry(struct record_reader *reader, struct record_block *block, size_t keep,
                      struct error *err)
{
    size_t rest = block->size - keep;

    if (reserve(&reader->carry, &reader->carry_capacity, rest, err) < 0)
        return -1;
    memcpy(reader->carry, block->data + keep, rest);
    reader->carry_size = rest;
    reader->base += (int64_t)keep;
    block->size = keep;
    return 0;
}

/* Free the memory of an unusually long record. */
static void shrink(char **data, size_t *capacity, size_t normal)
{
    if (*capacity > 4 * normal) {
        free(*data);
        *data = NULL;
        *capacity = 0;
    }
}

static int take_carry(struct record_reader *reader, struct record_block *block, struct error *err)
{
    block->size = 0;
    shrink(&block->data, &block->capacity, reader->block_size);
    if (reserve(&block->data, &block->capacity, reader->carry_size, err) < 0)
        return -1;
    if (reader->carry_size > 0)
        memcpy(block->data, reader->carry, reader->carry_size);
    block->size = reader->carry_size;
    reader->carry_size = 0;
    shrink(&reader->carry, &reader->carry_capacity, reader->block_size);
    return 0;
}

static void number_lines(struct record_reader *reader, struct record_block *block, int64_t begin)
{
    int64_t boundary = source_boundary(reader->source);

    block->segment = reader->at;
    block->first_line = reader->line;
    block->site = reader->site;
    block->cut = reader->truncated && reader->ended;
    if (reader->mode == RECORD_PAGE) {
        /* Count only the bytes of the last page before the cut, so that neighbors add up. */
        block->first_line = begin;
        reader->line = begin + (int64_t)block->size;
        if (boundary >= 0 && reader->line > boundary)
            reader->line = boundary > begin ? boundary : begin;
        block->lines = reader->line - block->first_line;
        return;
    }
    block->lines = count_lines(block->data, block->size);
    reader->line += block->lines;
}

/* Skip what belongs to another segment or to a record that is too long. */
static void skip(struct record_reader *reader, struct record_block *block)
{
    enum record_mode mode = reader->skipping ? RECORD_LINE : reader->mode;
    int through;
    size_t count = record_rest(mode, block->data, block->size, &through);

    if (reader->ended && !through)
        count = block->size;
    if (reader->dropping && reader->mode != RECORD_PAGE)
        reader->line += count_newlines(block->data, count);
    drop(reader, block, count);
    if (through)
        reader->skipping = reader->dropping = 0;
}

static void skip_mark(struct record_reader *reader, struct record_block *block)
{
    static const char mark[] = "\xef\xbb\xbf";

    if (reader->at_start && block->size >= sizeof(mark) - 1 &&
        memcmp(block->data, mark, sizeof(mark) - 1) == 0) {
        reader->mark = sizeof(mark) - 1;
        drop(reader, block, sizeof(mark) - 1);
    }
    reader->at_start = 0;
}

/* How much of a record that is too long is kept for the message about it. */
enum { HEAD_SIZE = 4096 };

/* The record at the start of the block is too long: return an empty block that says so. */
static int too_long(struct record_reader *reader, struct record_block *block)
{
    block->segment = reader->at;
    block->first_line = reader->line;
    block->lines = 1;
    block->too_long = 1;
    block->head = block->size < HEAD_SIZE ? block->size : HEAD_SIZE;
    if (reader->mode == RECORD_PAGE)
        block->first_line = reader->base;
    else
        reader->line += count_newlines(block->data, block->size);
    drop(reader, block, block->size);
    reader->dropping = 1;
    return 1;
}

/* Read little beyond the end of the segment: only the rest of one line is needed. */
static size_t near_end(const struct record_reader *reader, const struct record_block *block,
                       size_t want)
{
    int64_t boundary = source_boundary(reader->source), left = boundary - reader->base;
    size_t enough;

    if (boundary < 0)
        return want;
    if (left >= (int64_t)block->size)
        enough = (size_t)left + 4096;
    else
        /* The last line is long: double the amount. */
        enough = block->size + 4096 + (size_t)((int64_t)block->size - (left > 0 ? left : 0));
    return enough < want ? enough : want;
}

const char *record_reader_flaw(struct record_reader *reader)
{
    return reader->flaw_told < reader->flaw_count ? reader->flaws[reader->flaw_told++] : NULL;
}

static int learn_site(struct record_reader *reader, const struct record_block *block,
                      struct error *err)
{
    const struct segment *segment = &reader->segments[reader->at];
    const char *flaw;

    if (record_learn_site(reader->files, segment, block->data, block->size, &reader->site, err) < 0)
        return -1;
    /* The first segment of a file reports it, whichever thread has parsed it. */
    flaw = segment->begin == 0 ? reader->site->flaw : NULL;
    if (flaw) {
        struct error sentence;

        error_set(&sentence, "%s: %s", reader->files->items[segment->file].path, flaw);
        add_flaw(reader, sentence.text);
    }
    return 0;
}

/* Read the next block of the open segment. Returns 1, 0 at its end, or -1. */
static int next_of_segment(struct record_reader *reader, struct record_block *block,
                           struct error *err)
{
    size_t want = reader->block_size > 4 ? reader->block_size : 4;

    block->too_long = block->cut = 0;
    block->head = 0;
    if (take_carry(reader, block, err) < 0)
        return -1;
    for (;;) {
        int64_t mine;
        size_t whole;

        if (fill(reader, block, near_end(reader, block, want), err) < 0)
            return -1;
        if (reader->skipping || reader->dropping) {
            skip(reader, block);
            if (reader->ended && block->size == 0)
                return 0;
            /* A single line extends beyond the segment at both ends. */
            if (reader->skipping && source_boundary(reader->source) >= 0 &&
                reader->base >= source_boundary(reader->source))
                return 0;
            want = block->size + reader->block_size;
            continue;
        }
        if (reader->at_start &&
            source_check_format(reader->files->items[reader->segments[reader->at].file].path,
                                block->data, block->size, err) < 0)
            return -1;
        if (reader->at_start &&
            record_check_content(reader->mode,
                                 reader->files->items[reader->segments[reader->at].file].path,
                                 block->data, block->size, err) < 0)
            return -1;
        skip_mark(reader, block);
        if (reader->mode == RECORD_PAGE && !reader->site && learn_site(reader, block, err) < 0)
            return -1;
        mine = owned(reader, block);
        if (mine >= 0) {
            block->size = (size_t)mine;
            reader->ended = 1;
            reader->carry_size = 0;
        }
        if (reader->ended) {
            /* The rest is the segment's last block, which is complete. */
            if (block->size == 0 && !reader->truncated)
                return 0;
            number_lines(reader, block, reader->base);
            reader->base += (int64_t)block->size;
            reader->truncated = 0;
            return 1;
        }
        whole = record_whole(reader->mode, block->data, block->size);
        if (whole > 0) {
            if (save_carry(reader, block, whole, err) < 0)
                return -1;
            number_lines(reader, block, reader->base - (int64_t)block->size);
            return 1;
        }
        if (block->size > reader->max_record)
            return too_long(reader, block);
        want = block->size * 2 < reader->max_record ? block->size * 2 : reader->max_record + 1;
        if (want < reader->block_size)
            want = reader->block_size;
    }
}

int record_reader_next(struct record_reader *reader, struct record_block *block, struct error *err)
{
    while (reader->at < reader->count) {
        int rc;

        if (!reader->source && open_segment(reader, err) < 0)
            return -1;
        rc = next_of_segment(reader, block, err);
        if (rc != 0)
            return rc;
        close_segment(reader);
    }
    return 0;
}
