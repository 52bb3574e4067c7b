/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in Hugging Face's names and format; hf_families.c and hf_masked.c list the architectures.
 */
#ifndef MEGATRON_HF_H
#define MEGATRON_HF_H

#include "engine/model/model.h"

/* Read this rank's part of the weights in 'path' (a directory or a safetensors file) into
 * the model's start_weights, where engine_start expects them. Every tensor of the model must
 * exist and have the right shape. */
int hf_load(const char *path, const struct model_config *config, struct model *model,
            struct device *device, struct error *err);

/* The default maximum size of a weights file, as in transformers. */
#define HF_SHARD_BYTES ((int64_t)50 * 1000 * 1000 * 1000)

/* Write the weights to 'directory', in the model's type: model.safetensors (or several files and
 * their index) and config.json. Collective: each rank writes its own part of the files, which must
 * be on a shared file system. */
int hf_save(const char *directory, const struct model_config *config, struct model *model,
            const struct parallel *parallel, struct device *device, struct error *err);

/* Check before training that hf_save knows a name for every tensor of the model and can write to
 * 'directory'. */
int hf_save_check(const char *directory, const struct model_config *config, struct error *err);

#endif
