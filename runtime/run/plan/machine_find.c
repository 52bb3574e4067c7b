/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include "machine_private.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/core/gib.h"
#include "lib/nearest.h"
#include "base/core/list.h"

static int has_name(const struct machine *machine, const char *name)
{
    if (strcasecmp(machine->name, name) == 0)
        return 1;
    for (size_t i = 0; i < sizeof(machine->aliases) / sizeof(*machine->aliases); i++)
        if (machine->aliases[i] && strcasecmp(machine->aliases[i], name) == 0)
            return 1;
    return 0;
}

static const struct machine *find_in(const struct machine_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (has_name(&list->items[i], name))
            return &list->items[i];
    return NULL;
}

struct names {
    const char **items;
    size_t count, room;
};

static void add_names(const struct machine_list *list, struct names *names)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct machine *machine = &list->items[i];

        *list_add(names) = machine->name;
        for (size_t k = 0; k < sizeof(machine->aliases) / sizeof(*machine->aliases); k++)
            if (machine->aliases[k])
                *list_add(names) = machine->aliases[k];
    }
}

/* Without the maker, as in "NVIDIA H100 80GB HBM3". */
static const char *model_of(const char *gpu)
{
    static const char *const makers[] = {"NVIDIA ", "Tesla "};

    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++)
        if (strncasecmp(gpu, makers[i], strlen(makers[i])) == 0)
            gpu += strlen(makers[i]);
    return gpu;
}

/* The memory in a GPU's name after its family, as in "A100-SXM4-40GB", "A100 80GB PCIe" or
 * "V100-16": a number before "GB" or at the end. 0 if there is none. */
static double memory_in_name(const char *name)
{
    for (const char *at = name + strcspn(name, "- "); *at; at++) {
        char *end;
        double size;

        if ((at[0] != '-' && at[0] != ' ') || !isdigit((unsigned char)at[1]))
            continue;
        size = strtod(at + 1, &end);
        if (*end == '\0' || strncasecmp(end, "GB", 2) == 0)
            return size;
    }
    return 0;
}

/* CUDA reports less than the name says: 7 % less on a B300. */
static int has_memory(const struct machine *machine, double size)
{
    return fabs(gib(machine->gpu.memory_bytes) - size) <= 0.1 * size;
}

/* Is this GPU of the family of a name: of "A100" with A100-40, of "A100-SXM4-40GB" with both? */
static int is_of_family(const struct machine *machine, const char *model)
{
    size_t family = strcspn(model, "- ");

    return strncasecmp(machine->gpu.name, model, family) == 0 &&
           strcspn(machine->gpu.name, "-") == family;
}

/* Has a name nothing after its family but what names of GPUs have: form, memory and its kind, as in
 * "A100-SXM4-40GB" and "H100 80GB HBM3"? Then it is no name that a site gave to its nodes. */
static int names_only_gpu(const char *model)
{
    static const char *const words[] = {"SXM", "PCI", "HBM", "NVL"};
    const char *at = model + strcspn(model, "- ");

    for (; *at; at += strcspn(at, "- ")) {
        int known;

        at += strspn(at, "- ");
        known = *at == '\0' || isdigit((unsigned char)*at);
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
            known |= strncasecmp(at, words[i], strlen(words[i])) == 0;
        if (!known)
            return 0;
    }
    return 1;
}

/* The kinds of nodes with this GPU, such as "dgx-h100, p5.48xlarge"; empty if there are none. */
static void list_with_gpu(const struct machine_list *list, const char *gpu, char *names,
                          size_t room)
{
    const char *model = model_of(gpu);
    double size = memory_in_name(model);
    size_t length = 0;

    names[0] = '\0';
    for (size_t i = 0; i < list->count; i++) {
        const struct machine *machine = &list->items[i];

        if (!is_of_family(machine, model) || (size > 0 && !has_memory(machine, size)))
            continue;
        if (length < room)
            length += (size_t)snprintf(names + length, room - length, "%s%s",
                                       length > 0 ? ", " : "", machine->name);
    }
}

static void unknown(const struct machines *machines, int bare, const char *name, struct error *err)
{
    struct names names = {0};
    char near[256] = "", kinds[512];

    add_names(&machines->with_gpus, &names);
    if (bare)
        add_names(&machines->bare, &names);
    nearest_names(name, names.items, names.count, near, sizeof(near));
    list_free(&names);
    list_with_gpu(&machines->with_gpus, name, kinds, sizeof(kinds));
    if (kinds[0] && names_only_gpu(model_of(name)))
        error_set_code(err, ERROR_USAGE, "%s is a GPU, not a kind of node; use one of %s", name,
                       kinds);
    else if (near[0])
        error_set_code(err, ERROR_USAGE, "unknown node kind %s; did you mean %s?", name, near);
    else
        error_set_code(err, ERROR_USAGE,
                       "unknown node kind %s; `megatron plan --node list` lists all", name);
}

const struct machine *machines_find(const struct machines *machines, const char *name,
                                    struct error *err)
{
    const struct machine *found = find_in(&machines->with_gpus, name);

    if (!found && find_in(&machines->bare, name))
        error_set_code(err, ERROR_USAGE, "nodes of kind %s have no GPUs; choose a kind with GPUs",
                       name);
    else if (!found)
        unknown(machines, 0, name, err);
    return found;
}

const struct machine *machines_find_any(const struct machines *machines, const char *name,
                                        struct error *err)
{
    const struct machine *found = find_in(&machines->with_gpus, name);

    if (!found)
        found = find_in(&machines->bare, name);
    if (!found)
        unknown(machines, 1, name, err);
    return found;
}

const struct machine *machines_find_gpu(const struct machines *machines, const char *name,
                                        int any_memory, struct error *err)
{
    const struct machine_list *list = &machines->with_gpus;
    const char *model = model_of(name);
    double size = memory_in_name(model);
    const struct machine *relative = NULL;

    for (size_t i = 0; i < list->count; i++)
        if (strcasecmp(list->items[i].gpu.name, model) == 0)
            return &list->items[i];
    for (size_t i = 0; i < list->count; i++) {
        const struct machine *machine = &list->items[i];

        if (!is_of_family(machine, model))
            continue;
        if (size <= 0 || has_memory(machine, size))
            return machine;
        if (!relative)
            relative = machine;
    }
    if (relative && any_memory)
        return relative;
    if (relative)
        error_set_code(err, ERROR_USAGE, "no machine file has a GPU %.*s with %g GB",
                       (int)strcspn(model, "- "), model, size);
    else
        error_set_code(err, ERROR_USAGE, "no machine file has a GPU called \"%s\"", model);
    return NULL;
}
