/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight_private.h"

#include <errno.h>
#include <string.h>

/* Does this errno tell of a path, rather than of a disk? */
static int is_of_path(int number)
{
    return number == ENOENT || number == ENOTDIR || number == EACCES || number == EPERM ||
           number == ELOOP || number == ENAMETOOLONG;
}

/* Can no node create a file in the directory, because of its path? */
static int scratch_is_wrong(const struct facts *facts, int size, int *number)
{
    int wrong = 0;

    for (int r = 0; r < size; r++) {
        if (!facts[r].leads)
            continue;
        if (!is_of_path(facts[r].node.scratch_error))
            return 0;
        if (wrong++ == 0)
            *number = facts[r].node.scratch_error;
    }
    return wrong > 0;
}

static int any_gpu(const struct facts *facts, int size)
{
    for (int r = 0; r < size; r++)
        if (facts[r].leads && facts[r].node.gpus > 0)
            return 1;
    return 0;
}

int mistakes_check(const struct preflight_options *options, const struct facts *facts, int size,
                   const struct machine *machine, const char *trouble, struct error *err)
{
    int number = 0;

    if (options->scratch_named && scratch_is_wrong(facts, size, &number)) {
        error_set_code_errno(err, ERROR_USAGE, number, "cannot create a file in %s",
                             options->scratch);
        return error_append(err, "; use --scratch with a directory that you can write to");
    }
    if (options->device == DEVICE_CUDA && trouble[0] && machine->gpus == 0 && !any_gpu(facts, size))
        return error_set_code(err, ERROR_USAGE, "no node has an NVIDIA GPU: %s", trouble);
    return 0;
}

int mistakes_doubt_kind(const struct preflight_options *options, const struct facts *facts,
                        int size, const struct machine *machine)
{
    const struct machine *looks = NULL;

    if (!options->kind || machine->gpus == 0 || any_gpu(facts, size))
        return 0;
    if (options->machines && size > 0 && facts[0].node.kind[0])
        looks = machines_find_any(options->machines, facts[0].node.kind, NULL);
    return !looks || strcmp(looks->name, machine->name) != 0;
}
