/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that read and write Hugging Face directories. */
#ifndef MEGATRON_HF_PRIVATE_H
#define MEGATRON_HF_PRIVATE_H

#include "model_config.h"
#include "parameters.h"
#include "safetensors.h"

enum { HF_NAME = 128 };

/* The location of one of our tensors within Hugging Face's. '%d' is the layer. */
struct hf_name {
    const char *ours, *theirs;
    int transposed; /* GPT-2 stores (in, out) */
    int part, size; /* for a fused tensor: its offset, in multiples of our number of rows */
};

/* Hugging Face's names for this model's tensors, or NULL if it does not support the model. */
const struct hf_name *hf_names_of(const struct model_config *config, struct error *err);

/* What Hugging Face calls the architecture of a table: "GPT-2" or "Llama". */
const char *hf_architecture(const struct hf_name *table);

/* The table row for our tensor, and Hugging Face's name for it; NULL: there is none. */
const struct hf_name *hf_find_name(const struct hf_name *table, const char *ours,
                                   char theirs[HF_NAME]);

/* Shape of the Hugging Face tensor, given ours. Vectors have one row. */
void hf_shape(const struct hf_name *row, const struct parameter *p, int64_t *rows, int64_t *cols);

/* The index of element (row, col) of our whole tensor in theirs. */
int64_t hf_index(const struct hf_name *row, const struct parameter *p, int64_t r, int64_t c);

/* Rows of a parameter that are not padding. */
int64_t hf_true_rows(const struct parameter *p);

/* Check that 'tensors' contains nothing that belongs to another model. Known unused buffers and
 * heads of other kinds are allowed. */
int hf_check_tensors(const struct hf_name *table, const struct safetensors *tensors,
                     const struct model_config *config, struct error *err);

/* Read this rank's part of one parameter from the Hugging Face tensors. */
int hf_load_one(const struct hf_name *table, const struct safetensors *tensors,
                const struct parameter *p, float *out, struct error *err);

/* The files of a directory that is being written. */
struct hf_files {
    struct hf_file {
        char name[64];
        char *path; /* while it is written; NULL before it is opened */
        struct safetensors_layout layout;
        int fd; /* -1: not open */
    } * list;
    size_t count;
    int64_t parameters, bytes; /* total of all files */
    const struct hf_name *table;
};

/* Decide which tensor goes where: the same in every process that plans the same model. A file has
 * at most 'shard_bytes' of data unless a single tensor is larger. Returns 0 or -1; call
 * hf_files_clear in both cases. */
int hf_files_plan(struct hf_files *files, const struct model_config *config, int64_t shard_bytes,
                  struct error *err);

/* Open the files under temporary names; one process creates them before the others open them. */
int hf_files_open(struct hf_files *files, const char *directory, int create, struct error *err);

/* Write this rank's part of one parameter, in the model's type. */
int hf_files_write(const struct hf_files *files, const struct parameter *p, const char *weights,
                   struct error *err);

/* Flush and close all open files. */
int hf_files_close(struct hf_files *files, struct error *err);

/* In one process, after all have closed: write config.json and the index, rename the files, and
 * remove other files of an earlier export. */
int hf_files_commit(const struct hf_files *files, const char *directory,
                    const struct model_config *config, struct error *err);

/* Remove the temporary files. */
void hf_files_abandon(const struct hf_files *files, const char *directory);
void hf_files_clear(struct hf_files *files);

#endif
