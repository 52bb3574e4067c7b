/* `megatron preprocess`: documents in, Megatron's .bin and .idx files out, by many ranks at once.
 *
 * Ranks share nothing but the file system of the output. Rank 0 makes a plan (plan.h). All ranks
 * turn chunks of it into part files (part.h, encode.h) in a work directory beside the output
 * (work.h), then copy the parts to their places in the final files (places.h, assemble.h), which
 * get their names by a rename at the very end. Nothing is done in an order that matters: who is
 * killed, when, and who takes over has no influence on the bytes. */
#ifndef MEGATRON_PREPROCESS_H
#define MEGATRON_PREPROCESS_H

#include <stdint.h>
#include "error.h"
#include "records.h"
#include "tokenizer.h"
#include "wikitext.h"
#include "world.h"

struct preprocess_config {
    const char *const *inputs; /* words as corpus_files_find takes them */
    size_t input_count;
    const char *const *keys;
    size_t key_count;
    enum record_mode mode;
    struct wiki_options wiki; /* for RECORD_PAGE */
    int detokenize;           /* for RECORD_TITLE: undo the spaces of wikitext-103 */
    const char *output_prefix;
    struct tokenizer_config tokenizer;
    int append_eod, strict, overwrite;
    int64_t threads;       /* per rank; 0: the CPUs the rank may run on */
    int64_t log_interval;  /* documents between progress lines */
    int64_t max_documents; /* 0: all */
    int64_t max_line;      /* bytes of the longest record */
    int64_t shards;        /* output files per key */
    int64_t chunk_bytes;   /* 0: by the size of the input */
    int64_t lease; /* seconds without progress after which another rank takes a chunk over */
    /* Shows rank 0's progress to the user, from any thread. 'replaces': the line takes the place of
     * the last one, which only happens if 'terminal' is set. */
    void (*progress)(const char *line, int replaces);
    int terminal; /* the user watches on a terminal */
};

/* Do this rank's part of the run, up to the end of the whole run. Prints Megatron's lines. Returns
 * 0 when the output is complete, -1 with 'err' set. */
int preprocess(const struct preprocess_config *config, const struct world *world,
               struct error *err);

#endif
