/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that every step sends and receives, registered with the communication library. */
#include "model_private.h"

static size_t add(struct model *m, struct comm_group *group, void *memory, size_t bytes)
{
    void *handle = comm_register(group, memory, bytes);

    if (!handle)
        return 0;
    m->registered[m->registered_count++] = (struct registration){group, handle};
    return bytes;
}

size_t model_register(struct model *m)
{
    const struct parallel *p = m->parallel;
    size_t elements = (size_t)m->parameters.elements, size = type_size(m->config.numerics.type);
    size_t whole = (size_t)(m->sizes.rows * m->sizes.hidden) * size, taken = 0;

    if (m->registered_count > 0)
        return 0;
    taken += add(m, p->data, m->weights, m->parameters.weight_bytes);
    taken += add(m, p->data, m->gradients, elements * type_size(m->config.numerics.gradient_type));
    if (p->layout.tp > 1) {
        taken += add(m, p->tensor, m->scratch.whole1, whole);
        taken += add(m, p->tensor, m->scratch.whole2, whole);
    }
    return taken;
}

void model_unregister(struct model *m)
{
    while (m->registered_count > 0) {
        const struct registration *r = &m->registered[--m->registered_count];

        comm_unregister(r->group, r->handle);
    }
}
