/* SPDX-License-Identifier: Apache-2.0 */
/* Decide which task uses which NICs. Every GPU of the node (allocated or not, so that a partial
 * allocation gets the same answer) claims the NICs at the nearest ancestor that has some; the
 * claimants there split them. Devices on one bus are closer to each other than to the other devices
 * of the same place: on flat trees (p4d) the bus is the only information. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

/* Where a claimant finds its NICs: below a place, or on one of its buses. */
struct anchor {
    int place;
    bool on_bus;
    uint32_t domain;
    uint8_t bus;
};

struct claimant {
    int place;
    const struct topology_device *device; /* NULL: not a device, just a place */
    struct anchor anchor;
};

struct pairing {
    const struct topology *topology;
    const struct topology_device *const *nics;
    size_t nic_count;
    struct claimant *claimants;
    size_t count;
    unsigned char *owns; /* count x nic_count: the result */
};

static bool is_at(const struct topology *topology, const struct anchor *anchor, int place,
                  const struct topology_device *device)
{
    if (!anchor->on_bus)
        return tree_is_below(topology, place, anchor->place);
    return device && place == anchor->place && device->pci.domain == anchor->domain &&
           device->pci.bus == anchor->bus;
}

static size_t nics_at(const struct pairing *pairing, const struct anchor *anchor)
{
    size_t count = 0;

    for (size_t i = 0; i < pairing->nic_count; i++)
        count += is_at(pairing->topology, anchor, pairing->nics[i]->place, pairing->nics[i]);
    return count;
}

static void find_anchor(const struct pairing *pairing, struct claimant *claimant)
{
    struct anchor *anchor = &claimant->anchor;

    *anchor = (struct anchor){.place = claimant->place};
    if (claimant->device) {
        anchor->on_bus = true;
        anchor->domain = claimant->device->pci.domain;
        anchor->bus = claimant->device->pci.bus;
        if (nics_at(pairing, anchor) > 0)
            return;
        anchor->on_bus = false;
    }
    while (anchor->place > 0 && nics_at(pairing, anchor) == 0)
        anchor->place = pairing->topology->places[anchor->place].parent;
}

static bool same_anchor(const struct anchor *a, const struct anchor *b)
{
    return a->place == b->place && a->on_bus == b->on_bus &&
           (!a->on_bus || (a->domain == b->domain && a->bus == b->bus));
}

/* Deeper anchors come first: children have larger numbers, and a bus is within its place. */
static bool is_deeper(const struct anchor *a, const struct anchor *b)
{
    return a->place != b->place ? a->place > b->place : a->on_bus > b->on_bus;
}

static size_t owned(const struct pairing *pairing, size_t claimant)
{
    size_t count = 0;

    for (size_t i = 0; i < pairing->nic_count; i++)
        count += pairing->owns[claimant * pairing->nic_count + i];
    return count;
}

/* Take a NIC from the claimant below 'anchor' that has the most, if it has several. Returns the
 * NIC, or nic_count. */
static size_t take_one(const struct pairing *pairing, const struct anchor *anchor)
{
    size_t richest = 0, most = 1, nic = pairing->nic_count;

    for (size_t i = 0; i < pairing->count; i++) {
        const struct claimant *claimant = &pairing->claimants[i];

        if (is_at(pairing->topology, anchor, claimant->place, claimant->device) &&
            owned(pairing, i) > most) {
            most = owned(pairing, i);
            richest = i;
        }
    }
    for (size_t i = 0; most > 1 && i < pairing->nic_count; i++)
        if (pairing->owns[richest * pairing->nic_count + i])
            nic = i;
    if (most > 1)
        pairing->owns[richest * pairing->nic_count + nic] = 0;
    return nic;
}

/* Collect the NICs at 'anchor' into pool[]: all, or the unclaimed ones. Returns their number. */
static size_t fill_pool(const struct pairing *pairing, const struct anchor *anchor, bool all,
                        unsigned char *pool)
{
    size_t found = 0;

    memset(pool, 0, pairing->nic_count);
    for (size_t i = 0; i < pairing->nic_count; i++) {
        int taken = 0;

        for (size_t c = 0; c < pairing->count; c++)
            taken |= pairing->owns[c * pairing->nic_count + i];
        if ((all || !taken) &&
            is_at(pairing->topology, anchor, pairing->nics[i]->place, pairing->nics[i])) {
            pool[i] = 1;
            found++;
        }
    }
    return found;
}

/* Give claimant 'i' of 'claimants' its part of the pool: consecutive NICs, or one that several
 * share. */
static void take_part(const struct pairing *pairing, size_t claimant, size_t i, size_t claimants,
                      const unsigned char *pool, size_t pooled)
{
    size_t first = i * pooled / claimants;
    size_t end = pooled >= claimants ? (i + 1) * pooled / claimants : first + 1;
    size_t seen = 0;

    for (size_t nic = 0; nic < pairing->nic_count; nic++)
        if (pool[nic]) {
            if (seen >= first && seen < end)
                pairing->owns[claimant * pairing->nic_count + nic] = 1;
            seen++;
        }
}

static void settle_anchor(const struct pairing *pairing, const struct anchor *anchor,
                          unsigned char *pool)
{
    size_t claimants = 0, pooled = fill_pool(pairing, anchor, false, pool), i = 0, limit;

    for (size_t c = 0; c < pairing->count; c++)
        claimants += same_anchor(&pairing->claimants[c].anchor, anchor);
    while (pooled < claimants) {
        size_t nic = take_one(pairing, anchor);

        if (nic == pairing->nic_count)
            break;
        pool[nic] = 1;
        pooled++;
    }
    /* Closer claimants have taken all of them and have only one each: share those. */
    limit = pooled;
    if (pooled == 0) {
        pooled = fill_pool(pairing, anchor, true, pool);
        limit = pooled < claimants ? pooled : claimants;
    }
    for (size_t c = 0; pooled > 0 && c < pairing->count; c++)
        if (same_anchor(&pairing->claimants[c].anchor, anchor)) {
            if (limit < pooled)
                take_part(pairing, c, i * pooled / claimants, pooled, pool, pooled);
            else
                take_part(pairing, c, i, claimants, pool, pooled);
            i++;
        }
}

static int pair(struct pairing *pairing, struct error *err)
{
    unsigned char *settled = calloc(pairing->count + 1, 1);
    unsigned char *pool = calloc(pairing->nic_count + 1, 1);
    int rc = -1;

    if (!settled || !pool) {
        error_set(err, "out of memory");
        goto out;
    }
    for (size_t i = 0; i < pairing->count; i++)
        find_anchor(pairing, &pairing->claimants[i]);
    for (;;) {
        const struct anchor *deepest = NULL;

        for (size_t i = 0; i < pairing->count; i++)
            if (!settled[i] && (!deepest || is_deeper(&pairing->claimants[i].anchor, deepest)))
                deepest = &pairing->claimants[i].anchor;
        if (!deepest)
            break;
        settle_anchor(pairing, deepest, pool);
        for (size_t i = 0; i < pairing->count; i++)
            settled[i] |= same_anchor(&pairing->claimants[i].anchor, deepest);
    }
    rc = 0;
out:
    free(settled);
    free(pool);
    return rc;
}

/* Does 'task' use GPU number 'index' of the topology? */
static bool uses_gpu(const struct binding *binding, size_t task, int index)
{
    for (size_t gpu = 0; gpu < binding->gpu_count; gpu++)
        if (binding->gpus[gpu].gpu.index == index && binding->owns[task * binding->gpu_count + gpu])
            return true;
    return false;
}

/* Give the NICs of one GPU to the tasks that use it. */
static void hand_down(const struct binding *binding, const struct pairing *pairing, size_t gpu,
                      unsigned char *uses)
{
    size_t sharers = 0, i = 0, count = owned(pairing, gpu);

    for (size_t task = 0; task < binding->tasks; task++)
        sharers += (size_t)uses_gpu(binding, task, (int)gpu);
    for (size_t task = 0; sharers > 0 && count > 0 && task < binding->tasks; task++) {
        struct pairing part = *pairing;

        if (!uses_gpu(binding, task, (int)gpu))
            continue;
        part.owns = uses;
        take_part(&part, task, i++, sharers, &pairing->owns[gpu * pairing->nic_count], count);
    }
}

static int pair_with_gpus(struct binding *binding, unsigned char *uses, struct error *err)
{
    const struct topology *topology = binding->topology;
    struct pairing pairing = {
        .topology = topology, .nics = binding->nics, .nic_count = binding->nic_count};
    int rc = -1;

    pairing.claimants = calloc(topology->gpu_count + 1, sizeof(*pairing.claimants));
    pairing.owns = calloc((topology->gpu_count + 1) * (binding->nic_count + 1), 1);
    if (!pairing.claimants || !pairing.owns) {
        error_set(err, "out of memory");
        goto out;
    }
    for (size_t i = 0; i < topology->device_count; i++)
        if (topology->devices[i].kind == DEVICE_GPU)
            pairing.claimants[pairing.count++] = (struct claimant){
                .place = topology->devices[i].place, .device = &topology->devices[i]};
    if (pair(&pairing, err) < 0)
        goto out;
    for (size_t gpu = 0; gpu < pairing.count; gpu++)
        hand_down(binding, &pairing, gpu, uses);
    rc = 0;
out:
    free(pairing.claimants);
    free(pairing.owns);
    return rc;
}

/* The smallest place that contains all CPUs of a task. */
static int place_of_task(const struct binding *binding, size_t task)
{
    const struct topology *topology = binding->topology;
    int best = 0;
    struct cpuset cpus;

    for (size_t place = 1; place < topology->place_count; place++) {
        if (topology->places[place].kind == PLACE_BRIDGE)
            continue;
        topology_place_cpus(topology, (int)place, &cpus);
        if (cpuset_within(&binding->result->tasks[task].cpus, &cpus))
            best = (int)place;
    }
    return best;
}

/* Tasks without a GPU claim the NICs near their cores. */
static int pair_with_cpus(struct binding *binding, unsigned char *uses, struct error *err)
{
    struct pairing pairing = {
        .topology = binding->topology, .nics = binding->nics, .nic_count = binding->nic_count};
    size_t *tasks = calloc(binding->tasks, sizeof(size_t));
    int rc = -1;

    pairing.claimants = calloc(binding->tasks, sizeof(*pairing.claimants));
    pairing.owns = calloc(binding->tasks * (binding->nic_count + 1), 1);
    if (!tasks || !pairing.claimants || !pairing.owns) {
        error_set(err, "out of memory");
        goto out;
    }
    for (size_t task = 0; task < binding->tasks; task++) {
        if (binding_uses_gpu(binding, task))
            continue;
        pairing.claimants[pairing.count].place = place_of_task(binding, task);
        tasks[pairing.count++] = task;
    }
    if (pair(&pairing, err) < 0)
        goto out;
    for (size_t i = 0; i < pairing.count; i++)
        memcpy(&uses[tasks[i] * binding->nic_count], &pairing.owns[i * binding->nic_count],
               binding->nic_count);
    rc = 0;
out:
    free(tasks);
    free(pairing.claimants);
    free(pairing.owns);
    return rc;
}

static int set_nics(struct placement_task *task, const struct topology_device *const *nics,
                    size_t count, const unsigned char *uses, struct error *err)
{
    task->nics = calloc(count + 1, sizeof(struct topology_device *));
    if (!task->nics)
        return error_set(err, "out of memory");
    for (size_t i = 0; i < count; i++)
        if (!uses || uses[i])
            task->nics[task->nic_count++] = nics[i];
    return 0;
}

int bind_nics(struct binding *binding, struct error *err)
{
    unsigned char *uses = calloc(binding->tasks * (binding->nic_count + 1), 1);
    int rc = -1;

    if (!uses)
        return error_set(err, "out of memory");
    if (binding->nic_policy == NICS_ALL)
        memset(uses, 1, binding->tasks * binding->nic_count);
    if (binding->nic_policy == NICS_AUTO && binding->nic_count > 0 &&
        (pair_with_gpus(binding, uses, err) < 0 || pair_with_cpus(binding, uses, err) < 0))
        goto out;
    for (size_t task = 0; task < binding->tasks; task++) {
        struct placement_task *at = &binding->result->tasks[task];

        if (binding->nic_lists ? set_nics(at, binding->nic_lists[task],
                                          binding->nic_list_counts[task], NULL, err) < 0
                               : set_nics(at, binding->nics, binding->nic_count,
                                          &uses[task * binding->nic_count], err) < 0)
            goto out;
    }
    rc = 0;
out:
    free(uses);
    return rc;
}
