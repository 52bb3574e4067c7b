/* SPDX-License-Identifier: Apache-2.0 */
/* Records (lines, or texts cut at blank lines or titles) of a list of file ranges, block by block.
 *
 * The range [begin, end) of a file owns the lines that begin after its first byte, up to and
 * including the one that begins exactly at the end; the first range of a file also owns the line at
 * its first byte. (A range of a MediaWiki dump owns the pages that begin in it, and positions are
 * bytes: read "byte" for "line" below.) This way each line has one owner, whatever the ranges, and
 * no range needs the byte before it, for which the previous unit of a compressed file would have to
 * be decompressed.
 */
#ifndef MEGATRON_CORPUS_RECORDS_H
#define MEGATRON_CORPUS_RECORDS_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
#include "files.h"

enum record_mode {
    RECORD_JSON,  /* a line is a JSON object */
    RECORD_LINE,  /* a line is a document */
    RECORD_BLANK, /* documents are separated by blank lines */
    RECORD_TITLE, /* a document begins with a line ` = Title = `, as in wikitext-103 */
    RECORD_FILE,  /* a file is a document */
    RECORD_PAGE,  /* a document is a <page> of a MediaWiki dump */
    RECORD_EVERY, /* a line is a document, an empty one too */
};

/* Can a file be split in this mode? Not if recognizing a record takes more than its own line. */
int record_mode_cuts(enum record_mode mode);

struct segment {
    uint32_t file; /* number in the list of files */
    int64_t begin, end;
};

/* Readable bytes after a block's data, for vectorized parsers. */
enum { BLOCK_PADDING = 64 };

struct record_block {
    char *data; /* whole records */
    size_t size, capacity;
    size_t segment;     /* number of the segment they belong to */
    int64_t first_line; /* number of the first line in its segment, from 0 */
    int64_t lines;      /* lines in the block */
    int too_long;       /* the block represents one record that is too long; no data */
    size_t head;        /* if it is too long: bytes of its beginning that are still at 'data' */
    int cut;            /* RECORD_PAGE: the file is truncated after this block */
    const struct wiki_site *site; /* RECORD_PAGE: the dump's wiki */
};

struct record_reader;

/* Read 'segments' of 'files', of which the reader keeps the pointers. 'block_size' is about how
 * much a block holds; a single record may have up to 'max_record' bytes. */
struct record_reader *record_reader_create(const struct corpus_files *files,
                                           const struct segment *segments, size_t count,
                                           enum record_mode mode, size_t block_size,
                                           size_t max_record, struct error *err);
void record_reader_destroy(struct record_reader *reader);

/* Fill 'block' (zeroed before its first use, freed by record_block_clear) with the next records.
 * Returns 1, 0 at the end, -1 on error. */
int record_reader_next(struct record_reader *reader, struct record_block *block, struct error *err);

/* The lines that segment number 'segment' owns; valid once the reader has passed it. */
int64_t record_reader_lines(const struct record_reader *reader, size_t segment);

/* RECORD_PAGE: a sentence about a file that is truncated or whose <siteinfo> is incomplete; NULL if
 * there is nothing more to report. Each is returned once, and remains the reader's. */
const char *record_reader_flaw(struct record_reader *reader);

/* Bytes on disk of the segments read so far; and memory in use. */
int64_t record_reader_passed(const struct record_reader *reader);
size_t record_reader_memory(const struct record_reader *reader);

/* Bytes of input that the block represents; of a page that straddles a cut, those before the cut.
 */
int64_t record_block_bytes(enum record_mode mode, const struct record_block *block);
void record_block_clear(struct record_block *block);

/* Step through the records of 'block': '*at' begins with 0. Returns 1 with the record (without line
 * end) and its line within the block, or 0 after the last one. Blank lines are skipped. */
struct record {
    const char *data;
    size_t size;
    size_t length; /* with what was cut off at its end, except a newline */
    int64_t line;
};
struct record_cursor {
    size_t at;
    int64_t line;
};
int record_next(enum record_mode mode, const struct record_block *block,
                struct record_cursor *cursor, struct record *record);

#endif
