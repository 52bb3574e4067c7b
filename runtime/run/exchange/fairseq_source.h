/* SPDX-License-Identifier: Apache-2.0 */
/* RoBERTa models of fairseq: model.pt or checkpoint_*.pt, written by any version. */
#ifndef MEGATRON_FAIRSEQ_SOURCE_H
#define MEGATRON_FAIRSEQ_SOURCE_H

#include "engine/model/model_config.h"
#include "engine/model/parameters.h"

struct fairseq_source;

/* Open a file. 'heads' is the number of attention heads if the file does not contain it, or 0.
 * Returns NULL with 'err' set. Caller must destroy. */
struct fairseq_source *fairseq_source_open(const char *path, int64_t heads, struct error *err);
void fairseq_source_destroy(struct fairseq_source *source);

const struct model_config *fairseq_source_model(const struct fairseq_source *source);

/* Read one whole parameter. */
int fairseq_source_load(struct fairseq_source *source, const struct parameter *parameter,
                        float *out, struct error *err);

#endif
