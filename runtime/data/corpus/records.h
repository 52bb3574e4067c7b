/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the records (lines, or texts separated by blank lines or titles) of file ranges, in blocks.
 *
 *     reader = record_reader_create(&files, segments, count, mode, block_size, max_record);
 *     while ((rc = record_reader_next(reader, &block, &err)) > 0) {
 *         struct record_cursor cursor = {0, 0};
 *
 *         while (record_next(mode, &block, &cursor, &record))
 *             use(record.data, record.size);
 *     }
 *     record_block_clear(&block);
 *     record_reader_destroy(reader);
 *
 * The range [begin, end) of a file owns the lines that begin after its first byte, up to and
 * including the line that begins exactly at 'end'; the first range of a file also owns the line at
 * its first byte. (In a MediaWiki dump a range owns the pages that begin in it, and positions are
 * bytes: read "byte" for "line" below.) So each line has one owner, whatever the ranges, and no
 * range needs the byte before it, for which the previous unit of a compressed file would have to be
 * decompressed. */
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
    RECORD_EVERY, /* a line is a document, even if it is empty */
};

/* Can a file be cut in this mode? Only if a record can be recognized by its own line. */
int record_mode_cuts(enum record_mode mode);

struct segment {
    uint32_t file; /* index of the file */
    int64_t begin, end;
};

/* Readable bytes after the data of a block, for vectorized parsers. */
enum { BLOCK_PADDING = 64 };

struct record_block {
    char *data; /* complete records */
    size_t size, capacity;
    size_t segment;               /* index of their segment */
    int64_t first_line;           /* number of the first line within the segment, from 0 */
    int64_t lines;                /* number of lines */
    int too_long;                 /* the block stands for a record that is too long; no data */
    size_t head;                  /* if too_long: bytes of its beginning that are still at 'data' */
    int cut;                      /* RECORD_PAGE: the file is truncated after this block */
    const struct wiki_site *site; /* RECORD_PAGE: the wiki of the dump */
};

struct record_reader;

/* Create a reader of 'segments' of 'files'; it keeps the pointers. 'block_size' is the approximate
 * size of a block; a single record may have up to 'max_record' bytes. */
struct record_reader *record_reader_create(const struct corpus_files *files,
                                           const struct segment *segments, size_t count,
                                           enum record_mode mode, size_t block_size,
                                           size_t max_record);
void record_reader_destroy(struct record_reader *reader);

/* Read the next records into 'block' (initialized to zero, and freed by record_block_clear).
 * Returns 1, 0 at the end, or -1. */
int record_reader_next(struct record_reader *reader, struct record_block *block, struct error *err);

/* RECORD_PAGE: the next warning about a file that is truncated or whose <siteinfo> is incomplete;
 * NULL if there is none. The reader owns it. */
const char *record_reader_flaw(struct record_reader *reader);

/* Bytes on disk read so far; memory in use. */
int64_t record_reader_passed(const struct record_reader *reader);
size_t record_reader_memory(const struct record_reader *reader);

/* Bytes of input in the block. Of a page that straddles a cut, only those before the cut. */
int64_t record_block_bytes(enum record_mode mode, const struct record_block *block);
void record_block_clear(struct record_block *block);

/* Iterate over the records of 'block', with a zeroed cursor. Returns 1 with the record (without
 * newline) and its line within the block, or 0 after the last one. Skips blank lines. */
struct record {
    const char *data;
    size_t size;
    size_t length; /* size before trimming, without the newline */
    int64_t line;
};
struct record_cursor {
    size_t at;
    int64_t line;
};
int record_next(enum record_mode mode, const struct record_block *block,
                struct record_cursor *cursor, struct record *record);

#endif
