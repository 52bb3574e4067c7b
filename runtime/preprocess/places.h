/* Where everything goes in the final files: made from the footers of all parts, once. */
#ifndef MEGATRON_PREPROCESS_PLACES_H
#define MEGATRON_PREPROCESS_PLACES_H

#include "part.h"
#include "board.h"
#include "work.h"

/* A place in the output: how much lies before it, counted over all shards. */
struct place {
    int64_t documents;
    int64_t tokens[PART_KEYS], sequences[PART_KEYS];
};

/* Go on behind a part. */
void place_add(struct place *place, const struct part_totals *totals, size_t keys);

struct places {
    size_t keys, id_size, shards;
    uint64_t tag;  /* in the names of the files while they are made: another layout's differ */
    size_t chunks; /* that are used: with --max-documents perhaps not all */
    struct place *begins; /* of each chunk, and the end of the last one */
    struct place *cuts;   /* begins of the shards, and the end of the output */
    int64_t bytes, faults[FAULT_COUNT];
    size_t copies; /* copy jobs: job i is chunks [groups[i], groups[i + 1]) */
    size_t *groups;
};

/* Add up the parts of all chunks that 'board' knows as done. A part that is torn is removed and its
 * job set back to not done; then 1 is returned and the chunk must be made again. Prints a line for
 * each of the first broken documents. Goes on with 'claim', the layout's job: there may be parts
 * for longer than the lease. Returns 0 or -1 otherwise. Caller must clear. */
int places_make(struct places *layout, const struct preprocess_config *config,
                const struct plan *plan, const struct tokenizer *tokenizer, struct work *work,
                struct board *board, struct board *claim, struct error *err);
void places_clear(struct places *layout);

/* The first layout written is the layout; writing another one changes nothing. */
int places_write(const struct places *layout, const char *path, struct error *err);
/* Returns 0; 1 where there is none; -1. */
int places_read(struct places *layout, const char *path, struct error *err);

/* Open the part of 'chunk'. Its name is not known from the number alone: it is looked up. */
struct part_reader *places_open_part(struct work *work, struct board *board, size_t chunk,
                                     size_t keys, size_t id_size, int *torn, struct error *err);

#endif
