/* SPDX-License-Identifier: Apache-2.0 */
/* A part: the file that one chunk becomes, in blocks as they were encoded.
 *
 *     header   magic, identity of the plan, number of the chunk
 *     block*   struct part_block, then for each key its tokens and its entries
 *     footer   struct part_footer with totals, checksum, size, end magic
 * An entry is an int32: the number of tokens of one sequence; its sign bit marks the last sequence
 * of a document. A document without tokens is an entry of 0 with the mark. Blocks and footer have
 * checksums: parts are not synced to disk (most are read and removed before they get there), so a
 * part that a node crash left incomplete ("torn") must be detected, and the chunk is encoded again.
 */
#ifndef MEGATRON_PREPROCESS_PART_H
#define MEGATRON_PREPROCESS_PART_H

#include <stdint.h>
#include "lib/error.h"
#include "preprocess.h"
#include "data/tokenizer/tokenizer.h"

#define ENTRY_LAST          ((int32_t)0x80000000)
#define ENTRY_TOKENS(entry) ((entry)&INT32_MAX)

/* Faults that a part lists: invalid documents, and kept pages with unclosed markup, of which there
 * may be many. */
enum { PART_INVALID = 32, PART_UNCLOSED = 20, PART_FAULTS = PART_INVALID + PART_UNCLOSED };

struct entry_list {
    int32_t *items;
    size_t count, room;
};

/* An encoded block. */
struct part_data {
    struct token_buffer tokens[PART_KEYS];
    struct entry_list entries[PART_KEYS];
    int64_t documents;
};

struct part_fault {
    uint64_t segment; /* index within the chunk */
    uint64_t line;    /* line of the segment, from 0; in a dump the byte offset */
    uint32_t fault;   /* enum document_fault */
    uint32_t key;     /* the key; for unclosed markup the tag */
    uint32_t shown;   /* already reported */
    uint32_t page;    /* a page of a dump */
    char title[96];   /* title of the page, possibly truncated */
};

/* The totals of a part. */
struct part_totals {
    int64_t documents, bytes; /* bytes of input, decompressed */
    int64_t tokens[PART_KEYS], sequences[PART_KEYS];
    int64_t faults[FAULT_COUNT];
    struct part_fault listed[PART_FAULTS]; /* the first ones */
    int64_t listed_count;
    int64_t leading; /* documents that lack a key before the first valid one */
    char names[256]; /* members of the first document that lacks a key */
};

/* Is this a page that is kept despite unclosed markup? */
static inline int part_fault_is_kept(const struct part_fault *fault)
{
    return fault->fault >= FAULT_LEFT_OUT_END;
}

/* Add a fault to a list of PART_FAULTS in input order, if there is room for its kind. */
void part_fault_list(struct part_fault *listed, int64_t *count, const struct part_fault *fault);

/* Describe a fault and the key it concerns. */
void part_fault_text(const struct part_fault *fault, const char *const *keys, char *text,
                     size_t size);

/* Describe the location of a fault: "FILE:7", or 'FILE: page "Title" at byte 700'. 'before' is the
 * number of lines (or bytes) before its segment. */
void part_fault_location(const struct part_fault *fault, const char *path, int64_t before,
                         char *text, size_t size);

/* Fails if a key is wrong rather than the documents: none of the first PART_JUDGED documents has it
 * or, at the 'end', none at all. Returns 0, or -1 with 'err' set. */
enum { PART_JUDGED = 1000 };
int part_check_keys(const char *const *keys, const char *path, const struct part_totals *totals,
                    int end, struct error *err);

struct part_writer;

/* Create a part at 'path', overwriting it. */
struct part_writer *part_create(const char *path, uint64_t identity, uint64_t chunk, size_t keys,
                                size_t id_size, struct error *err);
int part_append(struct part_writer *writer, const struct part_data *data, struct error *err);
/* Write the footer and close; 'lines' has the line count of each of 'segments' segments. Frees the
 * writer also on error. */
int part_finish(struct part_writer *writer, const struct part_totals *totals, const int64_t *lines,
                size_t segments, struct error *err);
void part_abandon(struct part_writer *writer);

struct part_reader;

/* Open a part and read its footer. Returns NULL with 'err' set; '*torn' is set if the file is not a
 * complete part of this chunk. */
struct part_reader *part_open(const char *path, uint64_t identity, uint64_t chunk, size_t keys,
                              size_t id_size, int *torn, struct error *err);
void part_close(struct part_reader *reader);
const struct part_totals *part_totals(const struct part_reader *reader);
const int64_t *part_lines(const struct part_reader *reader, size_t *segments);

/* One key's data of a block: pointers into the reader, valid until the next call. */
struct part_key {
    const void *tokens;
    const int32_t *entries;
    size_t token_count, entry_count;
};

/* Read the next block. Returns 1 with 'keys' filled, 0 after the last one, or -1; '*torn' is set if
 * the part is damaged. */
int part_next(struct part_reader *reader, struct part_key *keys, int *torn, struct error *err);

#endif
