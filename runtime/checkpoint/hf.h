/* Weights as Hugging Face names and stores them: GPT-2 and Llama. */
#ifndef MEGATRON_HF_H
#define MEGATRON_HF_H

#include "model.h"

/* Read this rank's part of the weights in 'path' (a directory or a safetensors file) into the
 * model's gradient arena, in fp32: engine_start then takes them from there. Every tensor the model
 * has must be there with the right shape. */
int hf_load(const char *path, const struct model_config *config, struct model *model,
            struct device *device, struct error *err);

/* The most bytes of a file of weights, unless it is said otherwise: as transformers has it. */
#define HF_SHARD_BYTES ((int64_t)50 * 1000 * 1000 * 1000)

/* Write the weights to 'directory', in the model's type: model.safetensors (or several files and
 * their index) and config.json. Collective: each rank writes its own part of the files, which must
 * be on a file system they share. */
int hf_save(const char *directory, const struct model_config *config, struct model *model,
            const struct parallel *parallel, struct device *device, struct error *err);

/* Would hf_save find a name for every tensor of the model, and a 'directory' that it can write to?
 * Said before the training rather than behind it. */
int hf_save_check(const char *directory, const struct model_config *config, struct error *err);

#endif
