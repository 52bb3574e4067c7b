/* index.json of a checkpoint: where a run stood, which tensors the whole model has, and which part
 * of which tensor lies where in which file.
 *
 *   {"format": "megatron checkpoint", "version": 2,
 *    "progress": {...}, "state": {...}, "schedule": {...}, "model": {...},
 *    "layout": {"tp": 2, "cp": 1, "dp": 2, "pp": 1}, "arrays": 3,
 *    "tensors": [["embedding.word.weight", 300, 32], ...],
 *    "files": [{"name": "rank_00000.safetensors", "data": 4096, "elements": N, "bytes": N,
 *               "checksum": "...", "pieces": [[tensor, first_row, first_col, rows, cols, start,
 *                                              count], ...]}, ...],
 *    "checksum": "..."}
 *
 * A piece is elements start .. start + count - 1, row by row, of the block (rows, cols) at
 * (first_row, first_col) of a tensor; pieces of a file follow each other. A file holds 'arrays'
 * arrays of 'elements' fp32 each (weights, and both moments of Adam), one behind the other from
 * byte 'data' on. The last member is the checksum of all bytes before it. Checksums are XXH3 of 64
 * bits. Version 1 differs in its checksums only, which cannot be checked any more. */
#ifndef MEGATRON_INDEX_H
#define MEGATRON_INDEX_H

#include "model_config.h"
#include "pieces.h"

#define INDEX_NAME "index.json"

/* Where a run stands. */
struct progress {
    int64_t iteration, consumed, consumed_valid;
};

struct index_tensor {
    char name[64];
    int64_t rows, cols;
    int first; /* its first piece, -1: none; 'next' of that leads on */
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
    int unverified;    /* of version 1: the checksums mean nothing here */
    int first, pieces; /* among the pieces */
};

struct checkpoint_index {
    struct progress progress;
    struct step_state state;
    struct step_rules rules;
    struct model_config model;
    struct layout layout;
    int version;
    int arrays; /* 3, or 1 without the optimizer */
    struct index_tensor *tensors;
    int tensor_count;
    struct index_piece *pieces;
    int piece_count;
    struct index_file *files;
    int file_count;
};

/* Tensors, files and pieces as the ranks of 'layout' write them. What the files turn out to be
 * (data, bytes, checksum) the caller fills in. Returns 0 or -1; index_clear in both cases. */
int index_create(struct checkpoint_index *index, const struct model_config *model,
                 const struct layout *layout, struct error *err);

/* The tensors alone, of the whole model. */
int index_create_tensors(struct checkpoint_index *index, const struct model_config *model,
                         struct error *err);
void index_clear(struct checkpoint_index *index);

/* The text of index.json, to free; 'size' without the NUL behind it. */
char *index_write(const struct checkpoint_index *index, size_t *size, struct error *err);

/* What index_load, shard_reader_* and reshard_read return where the checkpoint itself is at fault:
 * a wrong checksum, size or content, or data that is lost; and where a disk cannot read it. -1 is
 * for what may pass, such as a file server that is away or no file handle left. */
enum { CHECKPOINT_DAMAGED = -3, CHECKPOINT_UNREADABLE = -4 };

/* Which of them it is where errno is 'number'. */
int index_fault(int number);

/* Read and check everything a reader relies on. 'name' is for errors. */
int index_read(struct checkpoint_index *index, const char *text, size_t size, const char *name,
               struct error *err);

/* The same for the file in 'directory'. */
int index_load(struct checkpoint_index *index, const char *directory, struct error *err);

/* The number of the tensor called 'name', or -1. */
int index_find(const struct checkpoint_index *index, const char *name);

/* Can there be a network of these sizes? Their products then stay within 64 bits, for all tensors
 * of all layers together. What index_read has read is checked. */
int index_check_sizes(const struct model_config *model, struct error *err);

/* Is the checkpoint one of 'model'? If not, -1 with what differs. */
int index_check_model(const struct checkpoint_index *index, const struct model_config *model,
                      struct error *err);

/* Are its schedules those of 'rules'? If not, -1 with what differs. */
int index_check_rules(const struct checkpoint_index *index, const struct step_rules *rules,
                      struct error *err);

#endif
