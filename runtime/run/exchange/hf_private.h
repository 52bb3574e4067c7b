/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that read and write Hugging Face directories. */
#ifndef MEGATRON_HF_PRIVATE_H
#define MEGATRON_HF_PRIVATE_H

#include <stdbool.h>
#include <string.h>

#include "engine/model/model_config.h"
#include "engine/model/parameters.h"
#include "safetensors.h"

enum { HF_NAME = 128, HF_FILE = 72, HF_ROWS = 40 };

struct hf_family;

/* Where our tensor is in a fused one of theirs. */
enum hf_part { PART_WHOLE, PART_QUERY, PART_KEY, PART_VALUE, PART_GATE, PART_UP };

/* How their tensor differs from ours. */
enum {
    HF_TRANSPOSED = 1,  /* (in, out), as GPT-2 stores it */
    HF_INTERLEAVED = 2, /* query, key and value of each head are adjacent, as in GPT-NeoX */
};

/* The location of one of our tensors within Hugging Face's. '%d' is the layer, once in each name;
 * a tensor of all layers has none. */
struct hf_name {
    const char *ours, *theirs;
    enum hf_part part;
    int how;
};

/* Hugging Face's names for the tensors of a model, and the sizes that decide where they are. */
struct hf_map {
    const struct hf_family *family; /* NULL: a model of hf_masked.h */
    const char *name;               /* of the architecture */
    struct hf_name names[HF_ROWS];  /* in the order of their files; the last has no names */
    size_t rows;
    int offset; /* what is added to norm weights of ours to get theirs: Gemma has them minus 1 */
    int64_t query, key, ffn, head; /* rows of queries, of keys, of the MLP, of one head */
};

/* The map of this model: that of the architecture that its weights came from, or else the first
 * that fits. Returns -1 if there is none. */
int hf_map_of(const struct network *network, struct hf_map *map, struct error *err);

/* The table row for our tensor, and Hugging Face's name for it; NULL: there is none. */
const struct hf_name *hf_find_name(const struct hf_map *map, const char *ours,
                                   char theirs[HF_NAME]);

/* Shape of the Hugging Face tensor, given ours. Vectors have one row. */
void hf_shape(const struct hf_map *map, const struct hf_name *row, const struct parameter *p,
              int64_t *rows, int64_t *cols);

/* The index of element (row, col) of our whole tensor in theirs. */
int64_t hf_index(const struct hf_map *map, const struct hf_name *row, const struct parameter *p,
                 int64_t r, int64_t c);

/* How many rows of our matrix, or elements of our vector, are adjacent in theirs. */
int64_t hf_adjacent(const struct hf_map *map, const struct hf_name *row, const struct parameter *p);

/* Rows of a parameter that are not padding. */
int64_t hf_true_rows(const struct parameter *p);

static inline bool hf_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static inline bool hf_ends(const char *text, const char *with)
{
    size_t length = strlen(text), tail = strlen(with);

    return length >= tail && strcmp(text + length - tail, with) == 0;
}

/* Check that 'tensors' contains nothing that belongs to another model. Known unused buffers and
 * heads of other kinds are allowed. */
int hf_check_tensors(const struct hf_map *map, const struct safetensors *tensors,
                     const struct model_config *config, struct error *err);

/* Read this rank's part of one parameter from the Hugging Face tensors. */
int hf_load_one(const struct hf_map *map, const struct safetensors *tensors,
                const struct parameter *p, float *out, struct error *err);

/* What is added to a value of ours to get theirs. */
int hf_offset(const struct hf_map *map, const struct hf_name *row);

/* Turn values of our parameter into theirs. */
void hf_to_theirs(const struct hf_map *map, const struct parameter *p, float *values,
                  int64_t count);

/* The files of a directory that is being written. */
struct hf_files {
    struct hf_file {
        char name[HF_FILE];
        char *path; /* its temporary name; NULL before hf_files_open */
        struct safetensors_layout layout;
        int fd; /* -1: not open */
    } * list;
    size_t count;
    int64_t parameters, bytes; /* total of all files */
    struct hf_map map;
};

/* Decide which tensor goes where: the same in every process that plans the same model. A file has
 * at most 'shard_bytes' of data unless a single tensor is larger. Returns 0 or -1; call
 * hf_files_clear in both cases. */
int hf_files_plan(struct hf_files *files, const struct model_config *config, int64_t shard_bytes,
                  struct error *err);

/* The name of file number 'i'. With 'next', the name that it has as long as the index still lists
 * an old file of the usual name. */
void hf_file_name(const struct hf_files *files, size_t i, int next, char name[HF_FILE]);

/* The files have temporary names in 'directory'. One process creates all of them before the others
 * call this, which open a file when they first write to it: only a few of thousands of ranks write,
 * each to a few files. */
int hf_files_open(struct hf_files *files, const char *directory, int create, struct error *err);

/* Write this rank's part of one parameter, in the model's type, after hf_to_theirs. */
int hf_files_write(struct hf_files *files, const struct parameter *p, const char *weights,
                   struct error *err);

/* Flush and close all open files. */
int hf_files_close(struct hf_files *files, struct error *err);

/* May an export of this model to 'directory' replace what is there? Only an earlier export of the
 * same model. Returns 0, or -1 if other weights or another config.json are there. */
int hf_files_check(const char *directory, const struct model_config *config, struct error *err);

/* In one process, after all have closed: write config.json and the index, rename the files, and
 * remove other files of an earlier export. If it fails or is killed at any point, a reader of the
 * directory gets all of the old weights or all of the new ones. */
int hf_files_commit(const struct hf_files *files, const char *directory,
                    const struct model_config *config, struct error *err);

/* Remove the temporary files. */
void hf_files_abandon(const struct hf_files *files, const char *directory);
void hf_files_clear(struct hf_files *files);

#endif
