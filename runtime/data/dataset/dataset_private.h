/* SPDX-License-Identifier: Apache-2.0 */
/* The internals of struct dataset, for the files of this directory. */
#ifndef MEGATRON_DATASET_PRIVATE_H
#define MEGATRON_DATASET_PRIVATE_H

#include <limits.h>
#include <stdbool.h>
#include "blend.h"
#include "cyclic.h"
#include "dataset.h"
#include "gpt_index.h"
#include "masked.h"

/* A corpus of a blend, and the order of its samples. */
struct blend_member {
    struct indexed *corpus;
    struct index_file *index;
};

struct dataset {
    enum dataset_split split;
    int64_t samples, sequence_length, vocabulary;
    int32_t eod;
    int eod_mask_loss, reset_position_ids, reset_attention_mask;
    struct blend_member *members; /* none: mock data */
    size_t member_count;
    int64_t left_out; /* members that are too small for a sample */
    char left_out_names[512];
    struct index_file *blend; /* arrays BLEND_*; NULL if the only member is used directly */
    uint32_t seed;
    int mock;
    struct masked *masked; /* of a masked language model: instead of the members */
    /* Of Megatron's BERT: the members' indices are bert.h's. */
    int bert;
    struct masked_config bert_config;
    struct cyclic *cyclic; /* NULL: samples are read in their order */
};

/* The data of masked language models (masked_paths.c): dataset_check and dataset_create. */
int masked_check(const struct dataset_config *config, struct error *err);
int masked_create(const struct dataset_config *config, struct dataset *splits[DATASET_SPLITS],
                  struct error *err);
/* The corpus and the number in it of sample 'i' in training order. */
int dataset_find(const struct dataset *dataset, int64_t i, const struct blend_member **member,
                 int64_t *sample, struct error *err);
/* Samples of member 'i'. */
int64_t dataset_part_samples(const struct dataset *dataset, size_t i);
/* A dataset without data. */
struct dataset *dataset_new(const struct dataset_config *config, enum dataset_split split,
                            size_t members);
/* dataset_create for GPT and BERT data in files (dataset_build.c). */
int dataset_build(const struct dataset_config *config, struct dataset *splits[DATASET_SPLITS],
                  struct error *err);

/* --- dataset_paths.c ------------------------------------------------------------------------- */

/* The options that name the data, parsed. */
struct data_paths {
    struct split_range ranges[DATASET_SPLITS];
    struct blend blends[DATASET_SPLITS]; /* of each split; the same ones if one list is divided */
};
int data_paths_read(const struct dataset_config *config, struct data_paths *paths,
                    struct error *err);
void data_paths_clear(struct data_paths *paths);

/* The part of a corpus that 'range' gives to 'split': sequences, or documents for BERT. It is an
 * error if there is no training data. */
int data_paths_part(const struct indexed *corpus, enum dataset_split split, bool bert,
                    const struct split_range *range, int64_t *first, int64_t *count,
                    struct error *err);

/* A directory in $TMPDIR or /tmp that belongs to this user and that no other user can write to; ""
 * if there is none. */
void cache_own_directory(char path[PATH_MAX]);

/* Where the indices of the corpus 'prefix' are; 'own' is cache_own_directory's, and 'beside' has
 * room for the path of a directory beside the corpus. */
struct index_place cache_place(const struct dataset_config *config, const char *own,
                               const char *prefix, char beside[PATH_MAX]);

enum { BLEND_CORPUS, BLEND_SAMPLE, BLEND_TAKEN }; /* i16, i64 per sample; i64 per member */

const char *dataset_split_name(enum dataset_split split);

/* Synthetic text: documents that count 1, 2, 3, ... and end with eod, of lengths that depend on
 * (seed, split, sample). A model learns to count. */
void mock_text(const struct dataset *dataset, int64_t i, int32_t *text);

/* Get the order of a blend of dataset->members from the cache, or build it. 'weights' are the
 * user's, normalized; NULL if the sizes of the corpora decide. 'wanted' is the number of samples;
 * negative: all. Sets dataset->blend and dataset->samples. */
int blend_index_get(struct dataset *dataset, const double *weights, int64_t wanted,
                    const struct index_place *place, struct error *err);

#endif
