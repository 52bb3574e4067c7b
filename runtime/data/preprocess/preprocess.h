/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron preprocess`: turns documents into Megatron's .bin and .idx files, on many ranks at
 * once.
 *
 *     struct preprocess_config config = {.inputs = inputs, .input_count = 1, .keys = keys,
 *                                        .key_count = 1, .output_prefix = "corpus", ...};
 *
 *     if (preprocess(&config, &err) < 0)
 *         report(&err);
 *
 * It is four phases of the job engine (data/jobs/jobs.h):
 *     encode    chunk -> part: tokens and lengths of its documents (encode.h, part.h)
 *     layout    one job: the position of every part in the output files (output_layout.h)
 *     copy      groups of parts to their positions (assemble.h)
 *     finish    one rank renames the output files
 *
 * The terms of this folder:
 *     segment   a byte range of one input file
 *     chunk     a list of segments: the job of the first phase (data/jobs/input_plan.h)
 *     block     a few hundred documents of a chunk: the unit of work of a thread (document_block.h)
 */
#ifndef MEGATRON_PREPROCESS_H
#define MEGATRON_PREPROCESS_H

#include <stdint.h>
#include "lib/error.h"
#include "data/tokenizer/fairseq.h"
#include "punkt.h"
#include "data/corpus/corpus.h"
#include "data/tokenizer/tokenizer.h"
#include "data/corpus/wiki.h"

/* The most keys of a run. */
enum { PART_KEYS = 32 };

struct preprocess_config {
    const char *const *inputs; /* as for corpus_files_find */
    size_t input_count;
    const char *const *keys;
    size_t key_count;
    enum record_mode mode;
    struct wiki_options wiki; /* for RECORD_PAGE */
    int detokenize;           /* RECORD_TITLE: undo the tokenization of wikitext-103 */
    const char *output_prefix;
    struct tokenizer_config tokenizer;
    int append_eod, strict, overwrite;
    /* --split-sentences: a directory with punkt's parameters; NULL: do not split. */
    const char *punkt;
    struct punkt_options punkt_options;
    int fairseq; /* write fairseq's PREFIX.bin and PREFIX.idx, with a sequence per text */
    /* FairseqWords: a dict.txt to make from the input if it is missing; or NULL. */
    const char *dictionary;
    struct fairseq_rules dictionary_rules;
    int64_t threads;       /* per rank; 0: the CPUs the rank may run on */
    int64_t log_interval;  /* documents between progress lines */
    int64_t max_documents; /* 0: all */
    int64_t max_line;      /* maximum size of a record */
    int64_t shards;        /* output files per key */
    int64_t chunk_bytes;   /* 0: chosen by the size of the input */
    int64_t lease; /* seconds without progress after which another rank takes a chunk over */
    const char *json_progress; /* a file for progress as JSON lines; or NULL */
};

/* Do all output files exist? They are renamed to their final names at the very end. Returns 1, 0,
 * or -1 with 'err' set. */
int preprocess_is_complete(const struct preprocess_config *config, struct error *err);

/* Do this rank's share of the work and wait for the others. Prints Megatron's lines on standard
 * output. Returns 0 when the output is complete, or -1 with 'err' set. */
int preprocess(const struct preprocess_config *config, struct error *err);

/* Make config->dictionary if it is missing: one rank counts the words of the input with
 * config->threads threads, and the others wait. '*made': this rank wrote it. */
int dictionary_make(const struct preprocess_config *config, int *made, struct error *err);

#endif
