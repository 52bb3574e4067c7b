/* A part file: the result of one chunk, in blocks as they were encoded.
 *
 *     header   magic, identity of the plan, number of the chunk
 *     block*   struct part_block, then for each key its tokens and its entries
 *     footer   struct part_footer with what it counts, checksum, size, end magic
 *
 * Of a chunk whose place in the output was known when it was made (front.h) the tokens lie there
 * already: its blocks hold only the entries, and its footer a checksum of the tokens.
 *
 * An entry is an int32: the tokens of one sequence; its sign bit marks the last sequence of a
 * document. A document without tokens is an entry of 0 with the mark. Blocks and footer carry
 * checksums: parts are not synced to disk (most are read and removed before they ever get there),
 * so one that a crashed node left torn must be recognised, and is then made again. */
#ifndef MEGATRON_PREPROCESS_PART_H
#define MEGATRON_PREPROCESS_PART_H

#include <stdint.h>
#include "error.h"
#include "jsonl.h"
#include "tokenizer.h"

#define ENTRY_LAST          ((int32_t)0x80000000)
#define ENTRY_TOKENS(entry) ((entry)&INT32_MAX)

enum { PART_KEYS = 32, PART_FAULTS = 32 };

struct entry_list {
    int32_t *items;
    size_t count, capacity;
};
int entry_list_add(struct entry_list *list, int32_t entry);

/* One encoded block on its way into a part. */
struct part_data {
    struct token_buffer tokens[PART_KEYS];
    struct entry_list entries[PART_KEYS];
    int64_t documents;
};

struct part_fault {
    uint64_t segment; /* of the chunk */
    uint64_t line;    /* of the segment, from 0; of a dump: byte */
    uint32_t fault;   /* enum document_fault */
    uint32_t key;
    uint32_t shown; /* its line was named when it was met */
    uint32_t page;  /* it is a page of a dump */
    char title[96]; /* of the page, perhaps cut */
};

/* What a part counts. */
struct part_totals {
    int64_t documents, bytes; /* bytes of input, decompressed */
    int64_t tokens[PART_KEYS], sequences[PART_KEYS];
    int64_t faults[FAULT_COUNT];
    struct part_fault listed[PART_FAULTS]; /* the first ones */
    int64_t listed_count;
    int64_t leading; /* documents without a key before the first one that counts */
    char names[256]; /* members of the first document without a key */
};

/* What is wrong, with the key it is about. */
void part_fault_text(const struct part_fault *fault, const char *const *keys, char *text,
                     size_t size);

/* Where it is: "FILE:7", or 'FILE: page "Title" at byte 700'. 'before' are the lines (or bytes)
 * before its segment. */
void part_fault_place(const struct part_fault *fault, const char *path, int64_t before, char *text,
                      size_t size);

/* Are these documents, from the first of the corpus on, those of a corpus without the key? Either
 * none of the first PART_JUDGED has it, or, at the 'end', none of all; then it is the wrong key,
 * not a set of broken documents. Returns 0, or -1 with 'err' set. */
enum { PART_JUDGED = 1000 };
int part_check_keys(const char *const *keys, const char *path, const struct part_totals *totals,
                    int end, struct error *err);

struct part_writer;

/* Begin a part at 'path', which is overwritten. 'direct': without the tokens. */
struct part_writer *part_create(const char *path, uint64_t identity, uint64_t chunk, size_t keys,
                                size_t id_size, int direct, struct error *err);
int part_append(struct part_writer *writer, const struct part_data *data, struct error *err);
/* Write the footer; 'lines' holds the lines of each of 'segments' segments. Closes in any case. */
int part_finish(struct part_writer *writer, const struct part_totals *totals, const int64_t *lines,
                size_t segments, struct error *err);
void part_abandon(struct part_writer *writer);

struct part_reader;

/* Open a part and read its footer. Returns NULL with '*torn' set where the file is not what the
 * plan's chunk should be, and with 'err' set. */
struct part_reader *part_open(const char *path, uint64_t identity, uint64_t chunk, size_t keys,
                              size_t id_size, int *torn, struct error *err);
void part_close(struct part_reader *reader);
const struct part_totals *part_totals(const struct part_reader *reader);
const int64_t *part_lines(const struct part_reader *reader, size_t *segments);

/* Do the tokens lie in the output? Then the checksum of those of each key, over the blocks one
 * after the other, each beginning with the sum so far; else NULL. */
const uint64_t *part_direct(const struct part_reader *reader);

/* Begin with the first block again. */
void part_rewind(struct part_reader *reader);

/* One key's share of a block: pointers into the reader's memory, valid until the next call. No
 * 'tokens' where they lie in the output. */
struct part_key {
    const void *tokens;
    const int32_t *entries;
    size_t token_count, entry_count;
};

/* Read the next block. Returns 1 with 'keys' filled, 0 behind the last one, -1; '*torn' as above.
 */
int part_next(struct part_reader *reader, struct part_key *keys, int *torn, struct error *err);

#endif
