/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* The coordinates that vary within a kind of group. */
struct kind {
    const char *name;
    int tp, cp, dp, pp;
};

static int same(int varies, int64_t mine, int64_t other)
{
    return varies || mine == other;
}

static struct comm_group *make_group(const struct parallel *p, const struct kind *kind,
                                     int ends_only, struct error *err)
{
    int64_t size = p->layout.tp * p->layout.cp * p->layout.dp * p->layout.pp;
    int *ranks = xcalloc((size_t)size, sizeof(*ranks)), count = 0;
    struct comm_group *group;

    for (int64_t rank = 0; rank < size; rank++) {
        struct layout_position at = layout_position(&p->layout, rank);

        if (ends_only && at.pp != 0 && at.pp != p->layout.pp - 1)
            continue;
        if (same(kind->tp, p->at.tp, at.tp) && same(kind->cp, p->at.cp, at.cp) &&
            same(kind->dp, p->at.dp, at.dp) && same(kind->pp, p->at.pp, at.pp))
            ranks[count++] = (int)rank;
    }
    if (ends_only && !parallel_first_stage(p) && !parallel_last_stage(p))
        count = 0;
    group = comm_group_create(p->comm, kind->name, ranks, count, err);
    free(ranks);
    return group;
}

int parallel_create(struct parallel *parallel, struct comm *comm, const struct layout *layout,
                    struct error *err)
{
    static const struct kind kinds[] = {
        {"world", 1, 1, 1, 1},  {"tensor", 1, 0, 0, 0},   {"context", 0, 1, 0, 0},
        {"data", 0, 1, 1, 0},   {"pipeline", 0, 0, 0, 1}, {"embedding", 0, 0, 0, 1},
        {"shared", 1, 0, 0, 0}, {"upstream", 0, 0, 0, 1},
    };
    struct comm_group **groups[] = {&parallel->world,  &parallel->tensor,   &parallel->context,
                                    &parallel->data,   &parallel->pipeline, &parallel->embedding,
                                    &parallel->shared, &parallel->upstream};

    memset(parallel, 0, sizeof(*parallel));
    if (layout->tp * layout->cp * layout->dp * layout->pp != comm->size)
        return error_set(err,
                         "tp %lld x cp %lld x dp %lld x pp %lld is not the %d ranks of this run; "
                         "start that many ranks, or change the layout",
                         (long long)layout->tp, (long long)layout->cp, (long long)layout->dp,
                         (long long)layout->pp, comm->size);
    parallel->comm = comm;
    parallel->layout = *layout;
    parallel->at = layout_position(layout, comm->rank);
    for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++) {
        *groups[i] = make_group(parallel, &kinds[i], groups[i] == &parallel->embedding, err);
        if (!*groups[i])
            return -1;
    }
    return 0;
}

void parallel_destroy(struct parallel *parallel)
{
    comm_group_destroy(parallel->world);
    comm_group_destroy(parallel->tensor);
    comm_group_destroy(parallel->context);
    comm_group_destroy(parallel->data);
    comm_group_destroy(parallel->pipeline);
    comm_group_destroy(parallel->embedding);
    comm_group_destroy(parallel->shared);
    comm_group_destroy(parallel->upstream);
    memset(parallel, 0, sizeof(*parallel));
}
