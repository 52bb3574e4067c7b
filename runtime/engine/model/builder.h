/* SPDX-License-Identifier: Apache-2.0 */
/* How blocks add their parameters to those of a rank; see parameters.c. */
#ifndef MEGATRON_BUILDER_H
#define MEGATRON_BUILDER_H

#include "block.h"

/* A list of parameters that is being built. */
struct builder {
    struct parameters *p;
    const struct model_config *config;
    const struct layout *layout;
    const struct layout_position *at;
    int bucket;
    int64_t bucket_elements; /* so far */
};

/* The dimension that tensor parallelism splits. */
enum split { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLS };

/* Random draws of one layer, or of all blocks outside the layers. */
enum { PARAMETER_DRAWS = 8 };

/* One parameter: a matrix, or a vector as one row. Its first values are normally distributed with
 * 'deviation', or all 'start'. 'draw', less than PARAMETER_DRAWS, tells apart the random draws of
 * one layer: two parameters with the same number start with the same values. */
struct parameter_spec {
    const char *name; /* without the layer */
    int64_t rows, cols;
    enum split split;
    int draw;
    double deviation, start;
};

/* Begin a tensor and return its number. Parameters that are added next are parts of it, one after
 * the other. */
int builder_tensor(struct builder *builder, enum parameter_class class);
void builder_add(struct builder *builder, const struct block *block,
                 const struct parameter_spec *spec);

/* A tensor of one matrix, and of one vector that starts at 'start'. */
int builder_matrix(struct builder *builder, const struct block *block,
                   const struct parameter_spec *spec);
int builder_vector(struct builder *builder, const struct block *block, const char *name,
                   int64_t size, double start);

/* A table with one row per token of the padded vocabulary. */
int builder_vocabulary(struct builder *builder, const struct block *block, const char *name,
                       int draw, enum parameter_class class);

/* Standard deviation of the weights that write to the residual stream: it is smaller in deep
 * networks, as in GPT-2, so that the stream does not grow with the number of layers. With the norm
 * after each branch it is that of all weights. */
double builder_output_deviation(const struct builder *builder);

#endif
