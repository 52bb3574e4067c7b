/* SPDX-License-Identifier: Apache-2.0 */
/* How the layers are divided among pipeline stages and their virtual stages. */
#include "arguments_private.h"
#include "base/core/layout_options.h"

#include <inttypes.h>

/* The number of virtual stages per rank. */
static int count_chunks(struct arguments *a, struct error *err)
{
    struct model_config *m = &a->model_config;
    int64_t stage = m->network.shape.layers / a->layout.pp;

    if (a->parallel.virtual_stages > 1 && a->layout.pp < 2)
        return error_set(
            err, "--num-virtual-stages-per-pipeline-rank requires --pipeline-model-parallel-size "
                 "of 2 or more; raise it, or drop the former");
    if (a->parallel.virtual_stages > 0)
        m->split.chunks = a->parallel.virtual_stages;
    if (a->parallel.layers_per_virtual_stage <= 0)
        return 0;
    if (a->layout.pp < 2)
        return error_set(
            err, "--num-layers-per-virtual-pipeline-stage requires --pipeline-model-parallel-size "
                 "of 2 or more; raise it, or drop the former");
    if (m->network.shape.layers % a->layout.pp != 0 ||
        stage % a->parallel.layers_per_virtual_stage != 0)
        return error_set(err,
                         "--num-layers-per-virtual-pipeline-stage=%" PRId64
                         " does not divide the %" PRId64 " layers of a pipeline stage; change it",
                         a->parallel.layers_per_virtual_stage, stage);
    m->split.chunks = stage / a->parallel.layers_per_virtual_stage;
    return 0;
}

/* The first and the last stage may have other numbers of layers. */
static int divide_ends(struct arguments *a, struct error *err)
{
    struct model_config *m = &a->model_config;
    int64_t first = a->parallel.first_stage_layers > 0 ? a->parallel.first_stage_layers : 0;
    int64_t last = a->parallel.last_stage_layers > 0 ? a->parallel.last_stage_layers : 0;
    int64_t stages = a->layout.pp - (first > 0) - (last > 0);
    int64_t rest = m->network.shape.layers - first - last;

    if (first % m->split.chunks != 0 || last % m->split.chunks != 0)
        return error_set(err,
                         "--decoder-first-pipeline-num-layers=%" PRId64
                         " and --decoder-last-pipeline-num-layers=%" PRId64
                         " must be multiples of the %" PRId64
                         " virtual stages of a rank; change them",
                         first, last, m->split.chunks);
    if (rest < 0 || (stages == 0 && rest != 0) ||
        (stages > 0 && (rest == 0 || rest % (stages * m->split.chunks) != 0)))
        return error_set(err,
                         "the first and the last pipeline stage have %" PRId64 " and %" PRId64
                         " of %" PRId64 " layers; the other %" PRId64
                         " cannot be divided equally among %" PRId64 " stages of %" PRId64
                         " virtual stages; change --decoder-first-pipeline-num-layers or "
                         "--decoder-last-pipeline-num-layers",
                         first, last, m->network.shape.layers, rest, stages, m->split.chunks);
    m->split.first_stage = first;
    m->split.last_stage = last;
    return 0;
}

static int count_ends(struct arguments *a, struct error *err)
{
    struct model_config *m = &a->model_config;
    int64_t all =
        m->network.shape.layers + a->parallel.account_for_embedding + a->parallel.account_for_loss;
    int64_t parts = a->layout.pp * m->split.chunks,
            least = 1 + (a->parallel.account_for_embedding != 0);

    if (a->layout.pp > 1)
        least = 1 + (a->parallel.account_for_embedding || a->parallel.account_for_loss);
    if (all % parts != 0 || all / parts < least)
        return error_set(err,
                         "--num-layers=%" PRId64 " with the %s counted as layers is %" PRId64
                         ", which is not a multiple of %" PRId64
                         " stages with a layer in each; change --num-layers",
                         m->network.shape.layers,
                         !a->parallel.account_for_loss        ? "embedding"
                         : !a->parallel.account_for_embedding ? "output layer"
                                                              : "embedding and the output layer",
                         all, parts);
    m->split.embedding_counts = a->parallel.account_for_embedding;
    m->split.loss_counts = a->parallel.account_for_loss;
    return 0;
}

int arguments_pipeline(struct arguments *a, struct error *err)
{
    struct model_config *m = &a->model_config;
    struct model_shape shape = m->network.shape;
    int ends = a->parallel.first_stage_layers > 0 || a->parallel.last_stage_layers > 0;
    int counted = a->parallel.account_for_embedding || a->parallel.account_for_loss;

    if (count_chunks(a, err) < 0)
        return -1;
    if ((ends || counted) && a->layout.pp < 2)
        return error_set(err, "unequal pipeline stages require --pipeline-model-parallel-size of 2 "
                              "or more; raise it");
    if ((ends && divide_ends(a, err) < 0) || (counted && count_ends(a, err) < 0))
        return -1;
    if (ends || counted) /* the layers need not divide evenly */
        shape.layers = a->layout.pp * m->split.chunks;
    return layout_check_model(&a->layout, &shape, m->split.chunks, &layout_options, err);
}
