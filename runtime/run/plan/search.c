/* SPDX-License-Identifier: Apache-2.0 */
#include "search.h"
#include "base/core/gib.h"
#include "base/core/layout_options.h"
#include "base/core/list.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fewer tokens of a sequence on a context-parallel rank leave nothing to compute while keys and
 * values travel. */
enum { LEAST_SEQUENCE = 1024 };

/* Share of a GPU's memory that a layout must leave not to be called tight: about as much again as
 * is counted for the context, of which NCCL's buffers depend on its version and settings. */
static const double TIGHT_SHARE = 0.04;

/* What a layout that is not tight may cost; predictions differ from measured times by more. */
static const double SAFE_SHARE = 0.05;

struct state {
    struct search *search;
    const struct own *own;
    const struct search_request *request;
    struct plan_run model;
    int64_t ranks;
};

static __attribute__((format(printf, 3, 4))) void
leave(struct search *search, enum search_reason reason, const char *format, ...)
{
    va_list args;

    if (search->left[reason]++ > 0)
        return;
    va_start(args, format);
    vsnprintf(search->why[reason], sizeof(search->why[reason]), format, args);
    va_end(args);
}

static void leave_for_memory(struct search *search, const struct candidate *candidate,
                             double available)
{
    const struct own_layout *l = &candidate->layout;

    leave(search, LEFT_MEMORY, "tp %lld, pp %lld, cp %lld, micro-batch %lld needs %.1f of %.1f GiB",
          (long long)l->tp, (long long)l->pp, (long long)l->cp, (long long)l->micro_batch,
          gib(candidate->memory.total), gib(available));
    if (search->smallest.layout.tp == 0 || candidate->memory.total < search->smallest.memory.total)
        search->smallest = *candidate;
}

/* Returns 1 if it fits, 0 if not, -1 on errors. */
static int try_layout(struct state *s, const struct own_layout *layout, struct error *err)
{
    const struct machine *machine = s->request->machine;
    struct candidate candidate = {.layout = *layout};
    struct error why;

    if (own_run(s->own, layout, &candidate.run, &why) < 0) {
        leave(s->search, LEFT_MODEL, "%s", why.text);
        return 0;
    }
    if (own_memory(s->own, layout, &candidate.memory, err) < 0)
        return -1;
    candidate.memory.context = machine->context_bytes;
    candidate.memory.total += candidate.memory.context;
    candidate.time = plan_estimate(&candidate.run, machine);
    if (candidate.memory.total > machine->gpu.memory_bytes) {
        leave_for_memory(s->search, &candidate, machine->gpu.memory_bytes);
        return 0;
    }
    *list_add(s->search) = candidate;
    return 1;
}

/* A size of the request: open, or just this one. */
static int open_or(int64_t fixed, int64_t value)
{
    return fixed == 0 || fixed == value;
}

/* The smallest divisor of 'number' above 'last', or number + 1. Takes the root of the number. */
static int64_t next_divisor(int64_t number, int64_t last)
{
    int64_t other, i;

    for (i = last + 1; i <= number / i; i++)
        if (number % i == 0)
            return i;
    /* None up to the root is left: the next one is the partner of a smaller one. */
    other = number / (last + 1);
    for (i = other < i ? other : i; i >= 1; i--)
        if (number % i == 0 && number / i > last)
            return number / i;
    return number + 1;
}

/* All micro-batches that divide what a data-parallel rank has of the global batch. Larger ones
 * need more memory, so the first that does not fit ends the list. */
static int try_batches(struct state *s, struct own_layout layout, int64_t of_rank,
                       struct error *err)
{
    const struct search_request *request = s->request;

    for (layout.micro_batch = 1; layout.micro_batch <= of_rank;
         layout.micro_batch = next_divisor(of_rank, layout.micro_batch)) {
        int fits;

        if (!open_or(request->micro_batch, layout.micro_batch))
            continue;
        if (layout.chunks > 1 && of_rank / layout.micro_batch % layout.pp != 0) {
            leave(s->search, LEFT_BATCH,
                  "%lld virtual stages need a multiple of %lld micro-batches, not %lld",
                  (long long)layout.chunks, (long long)layout.pp,
                  (long long)(of_rank / layout.micro_batch));
            continue;
        }
        fits = try_layout(s, &layout, err);
        if (fits < 0)
            return -1;
        if (fits == 0)
            break;
    }
    return 0;
}

/* Virtual stages, recomputation and micro-batches of one (tp, pp, cp). */
static int try_schedules(struct state *s, struct own_layout layout, int64_t of_rank,
                         struct error *err)
{
    const struct search_request *request = s->request;
    int64_t layers = s->model.shape.layers / layout.pp;

    for (layout.chunks = 1; layout.chunks <= (layout.pp > 1 ? layers : 1); layout.chunks++) {
        if (layers % layout.chunks != 0 || !open_or(request->chunks, layout.chunks))
            continue;
        for (int recompute = PLAN_RECOMPUTE_NONE; recompute <= PLAN_RECOMPUTE_FULL; recompute++) {
            if (request->recompute >= 0 && recompute != request->recompute)
                continue;
            layout.recompute = (enum plan_recompute)recompute;
            for (layout.fp8 = 0; layout.fp8 <= request->fp8_too; layout.fp8++)
                if (try_batches(s, layout, of_rank, err) < 0)
                    return -1;
        }
    }
    return 0;
}

static int try_sizes(struct state *s, int64_t tp, int64_t pp, int64_t cp, struct error *err)
{
    struct own_layout layout = {tp, pp, cp, 1, 1, PLAN_RECOMPUTE_NONE, 0};
    struct layout sizes = {.tp = tp, .cp = cp, .pp = pp, .dp = s->ranks / (tp * pp * cp)};
    struct error why;
    int64_t of_rank;

    if (tp > s->request->machine->gpus) {
        leave(s->search, LEFT_NODE, "tp %lld on nodes of %d GPUs", (long long)tp,
              s->request->machine->gpus);
        return 0;
    }
    if (layout_check_model(&sizes, &s->model.shape, 1, &layout_options, &why) < 0) {
        leave(s->search, LEFT_MODEL, "%s", why.text);
        return 0;
    }
    if (cp > 1 && s->model.shape.sequence / cp < LEAST_SEQUENCE && s->request->cp == 0) {
        leave(s->search, LEFT_SEQUENCE, "cp %lld leaves %lld tokens of a sequence", (long long)cp,
              (long long)(s->model.shape.sequence / cp));
        return 0;
    }
    if (s->model.global_batch % sizes.dp != 0) {
        leave(s->search, LEFT_BATCH, "dp %lld does not divide the global batch of %lld",
              (long long)sizes.dp, (long long)s->model.global_batch);
        return 0;
    }
    of_rank = s->model.global_batch / sizes.dp;
    if (s->request->micro_batch > 0 && of_rank % s->request->micro_batch != 0) {
        leave(s->search, LEFT_BATCH,
              "micro-batch %lld does not divide the %lld samples of a data-parallel rank",
              (long long)s->request->micro_batch, (long long)of_rank);
        return 0;
    }
    return try_schedules(s, layout, of_rank, err);
}

static int compare_time(const void *a, const void *b)
{
    const struct candidate *one = a, *other = b;

    if (one->time.total != other->time.total)
        return one->time.total < other->time.total ? -1 : 1;
    if (one->memory.total != other->memory.total)
        return one->memory.total < other->memory.total ? -1 : 1;
    return 0;
}

int search_run(struct search *search, const struct own *own, const struct search_request *request,
               struct error *err)
{
    struct state s = {.search = search, .own = own, .request = request};

    memset(search, 0, sizeof(*search));
    s.ranks = request->nodes * request->machine->gpus;
    if (own_model(own, &s.model, err) < 0)
        return -1;
    for (int64_t tp = 1; tp <= s.ranks; tp++)
        for (int64_t pp = 1; s.ranks % tp == 0 && pp <= s.ranks / tp; pp++)
            for (int64_t cp = 1; s.ranks / tp % pp == 0 && cp <= s.ranks / tp / pp; cp++) {
                if (s.ranks / tp / pp % cp != 0 || !open_or(request->tp, tp) ||
                    !open_or(request->pp, pp) || !open_or(request->cp, cp))
                    continue;
                if (try_sizes(&s, tp, pp, cp, err) < 0)
                    return -1;
            }
    if (search->count > 0)
        qsort(search->items, search->count, sizeof(*search->items), compare_time);
    return 0;
}

void search_clear(struct search *search)
{
    list_free(search);
}

int search_is_tight(const struct candidate *candidate, const struct machine *machine)
{
    return candidate->memory.total > (1 - TIGHT_SHARE) * machine->gpu.memory_bytes;
}

size_t search_recommended(const struct search *search, const struct machine *machine)
{
    const double most = (1 + SAFE_SHARE) * search->items[0].time.total;

    for (size_t i = 0; i < search->count && search->items[i].time.total <= most; i++)
        if (!search_is_tight(&search->items[i], machine))
            return i;
    return 0;
}

const char *search_reason(enum search_reason reason)
{
    static const char *const texts[SEARCH_REASONS] = {
        [LEFT_NODE] = "tensor parallelism across nodes",
        [LEFT_MODEL] = "sizes that do not divide the model",
        [LEFT_BATCH] = "sizes that do not divide the global batch",
        [LEFT_SEQUENCE] = "context parallelism with under 1,024 tokens per rank",
        [LEFT_MEMORY] = "layouts over the memory of a GPU",
    };

    return texts[reason];
}
