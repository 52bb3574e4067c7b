/* config.json of a Hugging Face folder: which network its weights are of. */
#ifndef MEGATRON_HF_CONFIG_H
#define MEGATRON_HF_CONFIG_H

#include "model_config.h"

/* Read 'directory'/config.json (GPT-2 or Llama) into 'config'; what it does not say is cleared.
 * Networks that we would compute otherwise are refused. */
int hf_config_read(const char *directory, struct model_config *config, struct error *err);

/* Write it, for a network that they have. */
int hf_config_write(const char *directory, const struct model_config *config, struct error *err);

#endif
