/* Generation: a cache of keys and values, and models of other lengths beside the one that has it.
 */
#include "model_private.h"

/* Attention multiplies what no token has written yet by 0: it must not be NaN. */
int model_create_cache(struct model *m, struct error *err)
{
    const struct model_sizes *z = &m->sizes;
    int64_t elements = z->layers * z->samples * z->cache * z->kv;
    struct operation op = {.kind = OPERATION_FILL, .fill = {elements, m->config.type, 0}};
    struct device_plan *plan;
    int rc;

    if (elements == 0)
        return 0;
    m->cache = device_allocate(m->device, (size_t)elements * type_size(m->config.type), err);
    if (!m->cache)
        return error_prefix(err, "cache of keys and values");
    plan = plan_create(m->device, &op, err);
    if (!plan)
        return -1;
    run_fill(plan, m->compute, &(struct fill_operands){m->cache});
    rc = device_stream_wait(m->compute, 600, err);
    plan_destroy(plan);
    return rc;
}

struct model *model_create_window(struct model *base, int64_t window, struct error *err)
{
    struct model_config config = base->config;
    const int slots[] = {1};
    struct model *m;

    config.shape.sequence = window;
    m = model_create_shell(&config, base->parallel, slots, err);
    if (!m)
        return NULL;
    m->base = base;
    m->device = base->device;
    m->compute = base->compute;
    m->side = base->side;
    m->compute_mark = base->compute_mark;
    m->side_mark = base->side_mark;
    m->weights = base->weights;
    m->cache = base->cache;
    m->cosine = base->cosine;
    m->sine = base->sine;
    m->activations = device_allocate(m->device, model_place(m, NULL), err);
    if (!m->activations)
        error_prefix(err, "activations of %lld tokens", (long long)m->sizes.rows);
    else
        model_place(m, m->activations);
    if (!m->activations || model_create_plans(m, err) < 0) {
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
    m->reached = 0;
    while (m->reached < m->reaches - 1 && m->reach[m->reached] < longest)
        m->reached++;
    model_forward(m, 0, 0, 1, 0);
}

void *model_logits(struct model *m)
{
    return m->scratch.logits;
}
