/* SPDX-License-Identifier: Apache-2.0 */
/* index.json of a checkpoint: the progress of the run, the tensors of the whole model, and which
 * part of which tensor is stored where.
 *
 *   {"format": "megatron checkpoint", "version": 1,
 *    "progress": {...}, "state": {...}, "schedule": {...}, "model": {...},
 *    "layout": {"tp": 2, "cp": 1, "dp": 2, "pp": 1}, "arrays": 3,
 *    "tensors": [["embedding.word.weight", 300, 32], ...],
 *    "files": [{"name": "rank_00000.safetensors", "data": 4096, "elements": N, "bytes": N,
 *               "checksum": "...", "pieces": [[tensor, first_row, first_col, rows, cols, start,
 *                                              count], ...]}, ...],
 *    "fp8_scales": {"bytes": N, "checksum": "..."},
 *    "checksum": "..."}
 *
 * A piece is elements start .. start + count - 1, row by row, of the block (rows, cols) at
 * (first_row, first_col) of a tensor; pieces of a file follow each other. A file has 'arrays'
 * arrays of 'elements' fp32 each (weights, and both moments of Adam), one after the other, starting
 * at byte 'data'. Only a checkpoint of a run in fp8 has "fp8_scales", see scaling_file.h. The last
 * member is the checksum of all bytes before it. Checksums are 64-bit XXH3. */
#ifndef MEGATRON_INDEX_H
#define MEGATRON_INDEX_H

#include "engine/model/model_config.h"
#include "pieces.h"

#define INDEX_NAME "index.json"

/* The progress of a run. */
struct progress {
    int64_t iteration, consumed, consumed_valid;
};

struct index_tensor {
    char name[64];
    int64_t rows, cols;
    int first; /* its first piece, -1: none; 'next' of that piece continues the list */
};

struct index_piece {
    int tensor, next;
    int64_t first_row, first_col, rows, cols, start, count;
    int64_t offset; /* in elements from the start of each array of its file */
};

struct index_file {
    char name[32];
    int64_t data, elements, bytes;
    uint64_t checksum;
    int first, pieces; /* range within the list of pieces */
};

/* The file of fp8 scales. */
struct index_scales {
    int64_t bytes; /* 0: the checkpoint has none */
    uint64_t checksum;
};

struct checkpoint_index {
    struct progress progress;
    struct step_state state;
    struct step_rules rules;
    struct model_config model;
    struct layout layout;
    int arrays; /* 3, or 1 without the optimizer state */
    struct index_tensor *tensors;
    int tensor_count;
    struct index_piece *pieces;
    int piece_count;
    struct index_file *files;
    int file_count;
    struct index_scales scales;
};

/* Fill in tensors, files and pieces as the ranks of 'layout' write them. The caller fills in what
 * depends on the written files (data, bytes, checksum). Returns 0 or -1; call index_clear in both
 * cases. */
int index_create(struct checkpoint_index *index, const struct model_config *model,
                 const struct layout *layout, struct error *err);

/* Fill in only the tensors, those of the whole model. */
void index_create_tensors(struct checkpoint_index *index, const struct model_config *model);
void index_clear(struct checkpoint_index *index);

/* The text of index.json, which the caller frees; 'size' does not count the NUL after it. */
char *index_write(const struct checkpoint_index *index, size_t *size, struct error *err);

/* Returned by index_load, shard_reader_* and reshard_read if the checkpoint itself is bad: DAMAGED
 * for a wrong checksum, size or content, or lost data; UNREADABLE if a disk cannot read it. -1 is
 * for errors that may go away, such as a file server that is down or too many open files. */
enum { CHECKPOINT_DAMAGED = -3, CHECKPOINT_UNREADABLE = -4 };

/* A checkpoint is damaged, as 'err' says: set ERROR_DAMAGED and the general remedy for it. Returns
 * CHECKPOINT_DAMAGED. */
#define CHECKPOINT_REMEDY "restore it from a copy, or use another checkpoint"
int index_damaged(struct error *err);

/* Classify errno value 'number' as one of them; 'err' describes it already. */
int index_fault(int number, struct error *err);

/* Parse the index and check everything that a reader relies on. 'name' is for errors. */
int index_read(struct checkpoint_index *index, const char *text, size_t size, const char *name,
               struct error *err);

/* Read and check the index in 'directory'. */
int index_load(struct checkpoint_index *index, const char *directory, struct error *err);

/* The index of the tensor called 'name', or -1. */
int index_find(const struct checkpoint_index *index, const char *name);

/* Are these sizes valid? If so, their products fit into 64 bits, for all tensors of all layers
 * together. index_read has checked what it read. */
int index_check_sizes(const struct network *model, struct error *err);

/* Does the checkpoint match 'model'? If not, -1 with the differences. */
int index_check_model(const struct checkpoint_index *index, const struct model_config *model,
                      struct error *err);

/* Does its schedule match 'rules'? If not, -1 with the differences. */
int index_check_rules(const struct checkpoint_index *index, const struct step_rules *rules,
                      struct error *err);

#endif
