/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"
#include "parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The divisors of 'number' that also divide 'other' (0: any), up to 'limit', as "1, 2, 4 or 8". */
static void list_divisors(int64_t number, int64_t other, int64_t limit, char *buffer, size_t size)
{
    int64_t found[12];
    size_t count = 0;

    for (int64_t d = 1; d <= number && d <= limit && count < 12; d++)
        if (number % d == 0 && (other == 0 || other % d == 0))
            found[count++] = d;
    buffer[0] = '\0';
    for (size_t i = 0; i < count; i++)
        list_text_add(buffer, size, i + 1 == count ? " or " : ", ", "%" PRId64, found[i]);
}

int layout_divide(struct layout *layout, int64_t world, const struct layout_names *names,
                  struct error *err)
{
    int64_t part;

    if (__builtin_mul_overflow(layout->tp, layout->pp, &part) ||
        __builtin_mul_overflow(part, layout->cp, &part))
        return error_set(err,
                         "%s=%" PRId64 " times %s=%" PRId64 " times %s=%" PRId64
                         " is too large; use smaller sizes",
                         names->tp, layout->tp, names->pp, layout->pp, names->cp, layout->cp);
    if (world < 1 || world % part != 0) {
        int64_t more = (world / part + 1) * part, less = world / part * part;
        char what[160], use[64];

        if (layout->pp == 1 && layout->cp == 1)
            snprintf(what, sizeof(what), "%s=%" PRId64, names->tp, layout->tp);
        else
            snprintf(what, sizeof(what),
                     "%s=%" PRId64 " x %s=%" PRId64 " x %s=%" PRId64 " = %" PRId64, names->tp,
                     layout->tp, names->pp, layout->pp, names->cp, layout->cp, part);
        if (less > 0)
            snprintf(use, sizeof(use), "%" PRId64 " or %" PRId64, less, more);
        else
            snprintf(use, sizeof(use), "%" PRId64, more);
        return error_set(err,
                         "%s does not divide %" PRId64 " task%s; use %s tasks, or another layout",
                         what, world, world == 1 ? "" : "s", use);
    }
    layout->dp = world / part;
    return 0;
}

int layout_check_model(const struct layout *layout, const struct model_shape *shape, int64_t chunks,
                       const struct layout_names *names, struct error *err)
{
    const struct {
        const char *option, *what;
        int64_t size, number, also;
    } rules[] = {
        {names->tp, "attention heads", layout->tp, shape->heads, shape->query_groups},
        {names->tp, "query groups", layout->tp, shape->query_groups, shape->heads},
        {names->tp, "hidden units", layout->tp, shape->hidden, shape->heads},
        {names->tp, "feed-forward units", layout->tp, shape->ffn_hidden, shape->heads},
        {names->pp, "layers", layout->pp, shape->layers, 0},
    };
    char use[160];

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (rules[i].number % rules[i].size == 0)
            continue;
        list_divisors(rules[i].number, rules[i].also, rules[i].number, use, sizeof(use));
        return error_set(err, "%s=%" PRId64 " does not divide the %" PRId64 " %s of %s; use %s",
                         rules[i].option, rules[i].size, rules[i].number, rules[i].what,
                         shape->name, use);
    }
    if (shape->layers % (layout->pp * chunks) != 0) {
        list_divisors(shape->layers / layout->pp, 0, chunks, use, sizeof(use));
        return error_set(err,
                         "%s=%" PRId64 " with %" PRId64
                         " virtual stages does not divide the %" PRId64
                         " layers of %s; use %s virtual stages",
                         names->pp, layout->pp, chunks, shape->layers, shape->name, use);
    }
    if (layout->cp > 1 && shape->sequence % (2 * layout->cp) != 0) {
        list_divisors(shape->sequence % 2 == 0 ? shape->sequence / 2 : 1, 0, layout->cp, use,
                      sizeof(use));
        return error_set(err,
                         "%s=%" PRId64 " needs a sequence length that is a multiple of %" PRId64
                         "; that of %s is %" PRId64 "; use %s",
                         names->cp, layout->cp, 2 * layout->cp, shape->name, shape->sequence, use);
    }
    if (shape->sequence % (layout->tp * layout->cp) != 0) {
        list_divisors(shape->sequence / layout->cp, shape->heads, layout->tp, use, sizeof(use));
        return error_set(err,
                         "%s=%" PRId64 " does not divide the sequence length of %s, %" PRId64
                         ", among sequence-parallel ranks; use %s",
                         names->tp, layout->tp, shape->name, shape->sequence, use);
    }
    return 0;
}

int layout_check_node(const struct layout *layout, int64_t tasks, int64_t gpus,
                      const struct layout_names *names, struct error *err)
{
    char use[160];

    if (gpus > 0 && layout->tp > gpus) {
        list_divisors(gpus, 0, gpus, use, sizeof(use));
        return error_set(err,
                         "%s=%" PRId64 " is more than the %" PRId64
                         " GPUs of a node; use %s, and more pipeline stages (%s) for larger models",
                         names->tp, layout->tp, gpus, use, names->pp);
    }
    /* The only task of a node may drive all its GPUs itself. */
    if (gpus > 0 && tasks > 1 && layout->tp > tasks) {
        list_divisors(tasks, 0, tasks, use, sizeof(use));
        return error_set(err,
                         "%s=%" PRId64 " is more than the %" PRId64
                         " tasks per node; use %s, or %" PRId64 " tasks per node",
                         names->tp, layout->tp, tasks, use, layout->tp);
    }
    if (tasks > 0 && tasks % layout->tp != 0 && layout->tp % tasks != 0) {
        list_divisors(tasks, 0, tasks, use, sizeof(use));
        return error_set(
            err,
            "%s=%" PRId64 " does not divide %" PRId64
            " tasks per node; use %s, or sbatch --ntasks-per-node with a multiple of %" PRId64,
            names->tp, layout->tp, tasks, use, layout->tp);
    }
    return 0;
}

struct layout_position layout_position(const struct layout *layout, int64_t rank)
{
    struct layout_position position;

    position.tp = rank % layout->tp;
    rank /= layout->tp;
    position.cp = rank % layout->cp;
    rank /= layout->cp;
    position.dp = rank % layout->dp;
    position.pp = rank / layout->dp;
    return position;
}

int64_t layout_rank(const struct layout *layout, struct layout_position position)
{
    return position.tp +
           layout->tp * (position.cp + layout->cp * (position.dp + layout->dp * position.pp));
}
