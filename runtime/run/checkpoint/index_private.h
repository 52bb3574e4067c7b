/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the index in memory and its text form. */
#ifndef MEGATRON_CHECKPOINT_INDEX_PRIVATE_H
#define MEGATRON_CHECKPOINT_INDEX_PRIVATE_H

#include "fields.h"
#include "index.h"

extern const struct field index_model_fields[], index_rule_fields[];

/* Is it a network that this program supports? */
int index_check_network(const struct network *model, struct error *err);

/* Append a piece to the list, and to the list of its tensor. */
void index_add_piece(struct checkpoint_index *index, const struct index_piece *piece);

#endif
