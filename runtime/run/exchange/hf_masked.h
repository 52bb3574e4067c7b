/* SPDX-License-Identifier: Apache-2.0 */
/* Masked language models of Hugging Face: RoBERTa, BERT and MegatronBert. */
#ifndef MEGATRON_HF_MASKED_H
#define MEGATRON_HF_MASKED_H

#include "hf_fields.h"
#include "hf_private.h"

/* Is it the model_type of one of them? */
int hf_masked_is_type(const char *model_type);

/* The model configuration of a config.json of that type. */
int hf_masked_read(struct json_value root, const char *model_type, struct network *network,
                   struct error *err);

/* The settings of config.json, with every value that differs from the defaults of transformers'
 * classes. */
void hf_masked_write(const struct network *network, struct json_writer *json);

/* The table of names and the name of its architecture; NULL with 'err' set if the network is not
 * one of them. */
const struct hf_name *hf_masked_names(const struct network *network, const char **architecture,
                                      struct error *err);

/* Check one tensor of the files. Returns 1 if the table must have its name, 0 if it is fine, or -1.
 */
int hf_masked_check(const struct hf_map *map, const struct safetensors *tensors,
                    const struct safetensor *tensor, const struct network *network,
                    struct error *err);

/* The tensor 'name' under the name that old files use for it, or NULL. */
const struct safetensor *hf_masked_find_old(const struct safetensors *tensors, const char *name);

/* Hugging Face's models always have a table of token types. A model without one is written with one
 * row of zeros: the name of that tensor, or NULL if the model has a table. */
const char *hf_masked_zeros(const struct network *network);

#endif
