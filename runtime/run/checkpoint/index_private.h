/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the index in memory and its text form. */
#ifndef MEGATRON_CHECKPOINT_INDEX_PRIVATE_H
#define MEGATRON_CHECKPOINT_INDEX_PRIVATE_H

#include "fields.h"
#include "index.h"

extern const struct field index_rule_fields[];

/* The properties of a network as rows of a table. */
void index_model_fields(struct field fields[NETWORK_PROPERTIES + 1]);

/* Append a piece to the list, and to the list of its tensor. */
void index_add_piece(struct checkpoint_index *index, const struct index_piece *piece);

#endif
