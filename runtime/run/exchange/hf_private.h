/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that read and write Hugging Face directories. */
#ifndef MEGATRON_HF_PRIVATE_H
#define MEGATRON_HF_PRIVATE_H

#include "base/core/json.h"
#include "engine/model/model_config.h"
#include "engine/model/parameters.h"
#include "safetensors.h"

enum { HF_NAME = 128, HF_FILE = 72 };

/* Where our tensor is in a fused one of theirs. */
enum hf_part { PART_WHOLE, PART_QUERY, PART_KEY, PART_VALUE, PART_GATE, PART_UP };

/* How their tensor differs from ours. */
enum {
    HF_TRANSPOSED = 1,  /* (in, out), as GPT-2 stores it */
    HF_INTERLEAVED = 2, /* query, key and value of each head are adjacent, as in GPT-NeoX */
    HF_MINUS_ONE = 4,   /* a weight w is stored as w - 1, as in Gemma and with layernorm_1p */
};

/* The location of one of our tensors within Hugging Face's. '%d' is the layer. */
struct hf_name {
    const char *ours, *theirs;
    enum hf_part part;
    int how;
};

/* hf_names.c: the tables, in the order of transformers' modules, which decides which tensor goes to
 * which file. They end with a row without names. A model need not have all tensors of a table. */
extern const struct hf_name hf_gpt2_names[], hf_llama_names[], hf_phi3_names[], hf_neox_names[],
    hf_olmo_names[], hf_gemma_names[], hf_gemma2_names[];

/* Of OLMo 1's norms; its configuration does not have it. */
#define HF_OLMO_EPSILON 1e-5

/* A model architecture of transformers. hf_families.c has them all. */
struct hf_family {
    enum architecture architecture;
    const char *name;       /* "GPT-NeoX" */
    const char *model_type; /* in config.json */
    const char *class;
    const struct hf_name *names;
    int64_t vocabulary;         /* size of the usual one, whose special tokens are the defaults */
    unsigned required, allowed; /* features; see hf_families.c */
};

const struct hf_family *hf_family_at(size_t index);
const struct hf_family *hf_family_of_type(const char *model_type);

/* Has the model, read from config.json, layers that its architecture cannot have? Returns 0, or -1
 * with the setting that is wrong. */
int hf_family_check(const struct network *network, struct error *err);

/* hf_keys.c: reject a config.json with settings of transformers that this program does not have.
 * 'name' is that of the architecture. */
int hf_keys_check(struct json_value root, const char *model_type, const char *name,
                  struct error *err);

/* Hugging Face's names for the tensors of a model, and the sizes that decide where they are. */
struct hf_map {
    const struct hf_family *family; /* NULL: a model of hf_masked.h */
    const struct hf_name *names;
    const char *name;              /* of the architecture */
    int64_t query, key, ffn, head; /* rows of queries, of keys, of the MLP, of one head */
    int layernorm_1p;              /* as of model_config */
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

/* Check that 'tensors' contains nothing that belongs to another model. Known unused buffers and
 * heads of other kinds are allowed. */
int hf_check_tensors(const struct hf_map *map, const struct safetensors *tensors,
                     const struct model_config *config, struct error *err);

/* Read this rank's part of one parameter from the Hugging Face tensors. */
int hf_load_one(const struct hf_map *map, const struct safetensors *tensors,
                const struct parameter *p, float *out, struct error *err);

/* What is added to a value of ours to get theirs: 0 if both have norm weights minus 1, or neither.
 */
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

/* The name of file number 'i'. 'next': that which it has in place of the usual one while the index
 * still lists an old file of that name. */
void hf_file_name(const struct hf_files *files, size_t i, int next, char name[HF_FILE]);

/* The files have temporary names in 'directory'. One process creates all of them before the others
 * call this, which open a file when they first write to it: of thousands of ranks few write, and
 * each to few files. */
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
 * remove other files of an earlier export. Whenever it is killed or fails, whoever loads the
 * directory gets all of the old weights or all of the new ones. */
int hf_files_commit(const struct hf_files *files, const char *directory,
                    const struct model_config *config, struct error *err);

/* Remove the temporary files. */
void hf_files_abandon(const struct hf_files *files, const char *directory);
void hf_files_clear(struct hf_files *files);

#endif
