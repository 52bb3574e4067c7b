/* SPDX-License-Identifier: Apache-2.0 */
/* config.json of a Hugging Face directory: the model configuration of its weights. */
#ifndef MEGATRON_HF_CONFIG_H
#define MEGATRON_HF_CONFIG_H

#include "engine/model/model_config.h"

/* Read 'directory'/config.json into 'config'; fields that it does not set are cleared. Models that
 * would be computed differently are rejected. */
int hf_config_read(const char *directory, struct model_config *config, struct error *err);

/* The text of config.json for a model that Hugging Face supports, which the caller frees; NULL with
 * 'err' set. */
char *hf_config_text(const struct model_config *config, size_t *size, struct error *err);

#endif
