/* SPDX-License-Identifier: Apache-2.0 */
/* Generation: the KV cache, and models whose passes take another number of tokens but share weights
 * and cache with the first one. */
#include "model_private.h"

/* Attention multiplies entries that no token has written yet by 0: they must not be NaN. */
int model_create_cache(struct model *m, struct error *err)
{
    const struct model_sizes *z = &m->sizes;
    int64_t elements = z->layers * z->samples * z->cache * z->kv;

    if (elements == 0)
        return 0;
    m->cache =
        device_allocate(m->device, (size_t)elements * type_size(m->config.numerics.type), err);
    if (!m->cache)
        return error_prefix(err, "KV cache");
    return model_clear(m, m->cache, elements, m->config.numerics.type, err);
}

struct model *model_create_pass(struct model *base, int64_t tokens, struct error *err)
{
    struct model_config config = base->config;
    struct model *m;

    config.network.shape.sequence = tokens;
    m = model_create_shell(&config, base->parallel, 1);
    m->base = base;
    m->device = base->device;
    m->overlap = base->overlap;
    m->weights = base->weights;
    m->cache = base->cache;
    m->activations = device_allocate(m->device, model_lay_out(m, NULL), err);
    if (!m->activations)
        error_prefix(err, "activations of %lld tokens", (long long)m->sizes.rows);
    else
        model_lay_out(m, m->activations);
    if (!m->activations || model_prepare_blocks(m, err) < 0) {
        model_destroy(m);
        return NULL;
    }
    return m;
}

void model_release_gradients(struct model *m)
{
    device_release(m->device, m->gradients);
    m->gradients = NULL;
}

void model_extend(struct model *m, int64_t longest)
{
    m->longest = longest;
    model_forward(m, 0, 0, 1, 0);
}
