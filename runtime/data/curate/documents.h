/* SPDX-License-Identifier: Apache-2.0 */
/* Iterates over the documents of a chunk and counts them. */
#ifndef MEGATRON_CURATE_DOCUMENTS_H
#define MEGATRON_CURATE_DOCUMENTS_H

#include <stddef.h>
#include <stdint.h>
#include "data/jobs/jobs.h"
#include "data/corpus/corpus.h"

/* A line of the input with its text. Pointers are valid until the next document. */
struct document {
    const char *text;
    size_t size;
    const char *raw; /* the text as it appears in the line, quoted and escaped */
    size_t raw_size;
    const char *line; /* without its newline */
    size_t line_size;
    int64_t number; /* within its chunk, from 0 */
    uint32_t file;  /* index of its file in the plan */
};

enum { TALLY_LISTED = 8 };

/* The location of a broken line. */
struct tally_fault {
    uint64_t segment; /* of the plan */
    uint64_t line;    /* within the segment, from 0 */
    uint64_t fault;
};

/* Counts of what was read. The tallies of all chunks add up. */
struct tally {
    int64_t documents;  /* lines with a text */
    int64_t text_bytes; /* of the texts */
    int64_t line_bytes; /* of their lines, after decompression */
    int64_t faults[FAULT_COUNT];
    struct tally_fault listed[TALLY_LISTED]; /* the first broken lines */
    int64_t listed_count;
};

void tally_put(const struct tally *tally, struct bytes *bytes);
void tally_take(struct tally *tally, struct bytes *bytes);
void tally_add(struct tally *sum, const struct tally *tally);
int64_t tally_faults(const struct tally *tally);

/* Call each(context, document) for all documents of chunk number 'chunk'. Broken lines are counted
 * and skipped; with --strict the first one is an error. Returns 0, or -1 (also if 'each' does). */
int documents_each(struct job *job, size_t chunk, struct tally *tally,
                   int (*each)(void *context, const struct document *document, struct error *err),
                   void *context, struct error *err);

/* Fails if no line of the input is a valid document: then the format or the key is wrong. The error
 * names the first line and has ERROR_USAGE. */
int documents_check(const struct jobs *engine, const struct tally *tally, struct error *err);

/* Log the broken lines that 'tally', the sum over all chunks, lists: file, line and fault. */
void documents_warn(const struct jobs *engine, const struct tally *tally);

/* Print what was read and which lines were broken, as part of the summary. */
void tally_print(const struct tally *tally);

/* Format an amount of data with a suitable unit, such as 276.553 kB. */
enum { AMOUNT_SIZE = 32 };
const char *amount_words(double bytes, char words[AMOUNT_SIZE]);

#endif
