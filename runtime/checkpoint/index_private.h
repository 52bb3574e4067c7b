/* What the index in memory and its text share. */
#ifndef MEGATRON_CHECKPOINT_INDEX_PRIVATE_H
#define MEGATRON_CHECKPOINT_INDEX_PRIVATE_H

#include "fields.h"
#include "index.h"

/* What makes two models, two schedules differ. */
extern const struct field index_model_fields[], index_rule_fields[];

/* Put a piece behind the others, and among those of its tensor. */
int index_add_piece(struct checkpoint_index *index, const struct index_piece *piece,
                    struct error *err);

#endif
