/* SPDX-License-Identifier: Apache-2.0 */
/* The documents of a chunk, one after the other, and what is counted of them. */
#ifndef MEGATRON_CURATE_DOCUMENTS_H
#define MEGATRON_CURATE_DOCUMENTS_H

#include <stddef.h>
#include <stdint.h>
#include "curate.h"
#include "data/corpus/jsonl.h"

/* A line of the input that holds a text. Pointers are valid until the next one. */
struct document {
    const char *text;
    size_t size;
    const char *raw; /* the text as it is in the line, with its quotes */
    size_t raw_size;
    const char *line; /* without its newline */
    size_t line_size;
    int64_t number; /* among the documents of its chunk, from 0 */
    uint32_t file;  /* that it is in, by its number in the plan */
};

enum { TALLY_LISTED = 8 };

/* A broken line, by its place in the plan. */
struct tally_fault {
    uint64_t segment; /* of the plan */
    uint64_t line;    /* of the segment, from 0 */
    uint64_t fault;
};

/* What was read. Those of all chunks can be added up. */
struct tally {
    int64_t documents;  /* lines with a text */
    int64_t text_bytes; /* of the texts */
    int64_t line_bytes; /* of their lines, decompressed */
    int64_t faults[FAULT_COUNT];
    struct tally_fault listed[TALLY_LISTED]; /* the first broken lines */
    int64_t listed_count;
};

void tally_put(const struct tally *tally, struct bytes *bytes);
void tally_take(struct tally *tally, struct bytes *bytes);
void tally_add(struct tally *sum, const struct tally *tally);
int64_t tally_faults(const struct tally *tally);

/* Call each(context, document) for all documents of the job's chunk number 'chunk'. Broken lines
 * are counted and passed over; with --strict the first one is the error. Returns 0, or -1 also
 * where 'each' does. */
int documents_each(struct curate_job *job, size_t chunk, struct tally *tally,
                   int (*each)(void *context, const struct document *document, struct error *err),
                   void *context, struct error *err);

/* Is no line of the input a document, because all are broken? Then the format or the key is wrong.
 * Returns 0, or -1 with ERROR_USAGE that names the first line. */
int documents_check(const struct curate *engine, const struct tally *tally, struct error *err);

/* Warn of the broken lines that 'tally', of all chunks, lists: file, line, what is wrong. */
void documents_warn(const struct curate *engine, const struct tally *tally);

/* Print what was read, and how many lines were broken and why, as part of a closing summary. */
void tally_print(const struct tally *tally);

/* An amount of data in the unit that suits it, such as 276.553 kB. */
enum { AMOUNT_SIZE = 32 };
const char *amount_words(double bytes, char words[AMOUNT_SIZE]);

#endif
