/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include "machine_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "nearest.h"
#include "remedy.h"

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

/* Append the names and aliases of all machines in the list; 'names' may be NULL, to count them. */
static size_t add_names(const struct machine_list *list, const char **names, size_t count)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct machine *machine = &list->items[i];

        if (names)
            names[count] = machine->name;
        count++;
        for (size_t k = 0; k < sizeof(machine->aliases) / sizeof(*machine->aliases); k++)
            if (machine->aliases[k]) {
                if (names)
                    names[count] = machine->aliases[k];
                count++;
            }
    }
    return count;
}

/* The kinds of nodes with this GPU, such as "dgx-h100, p5.48xlarge"; empty if there are none. */
static void list_with_gpu(const struct machine_list *list, const char *gpu, char *names,
                          size_t size)
{
    size_t length = 0;

    names[0] = '\0';
    for (size_t i = 0; i < list->count; i++) {
        const struct machine *machine = &list->items[i];
        size_t family = strcspn(machine->gpu.name, "-");

        if (strcasecmp(machine->gpu.name, gpu) != 0 &&
            (strncasecmp(machine->gpu.name, gpu, family) != 0 || gpu[family] != '\0'))
            continue;
        if (length < size)
            length += (size_t)snprintf(names + length, size - length, "%s%s",
                                       length > 0 ? ", " : "", machine->name);
    }
}

static void unknown(const struct machines *machines, int bare, const char *name, struct error *err)
{
    const struct machine_list *gpus = &machines->with_gpus, none = {NULL, 0};
    const struct machine_list *others = bare ? &machines->bare : &none;
    size_t all = add_names(others, NULL, add_names(gpus, NULL, 0));
    const char **names = calloc(all + 1, sizeof(*names));
    char near[256] = "", kinds[512];

    if (names) {
        add_names(others, names, add_names(gpus, names, 0));
        nearest_names(name, names, all, near, sizeof(near));
    }
    free(names);
    list_with_gpu(gpus, name, kinds, sizeof(kinds));
    if (kinds[0]) {
        error_set_code(err, ERROR_USAGE, "%s is a GPU, not a kind of node; use one of %s", name,
                       kinds);
        return;
    }
    if (near[0]) {
        error_set_code(err, ERROR_USAGE, "unknown node kind %s; did you mean %s?", name, near);
        return;
    }
    error_set_code(err, ERROR_USAGE, "unknown node kind %s", name);
    error_remedy(err, REMEDY_NODE_KINDS);
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
