/* SPDX-License-Identifier: Apache-2.0 */
#include "generate.h"
#include "base/core/layout_options.h"
#include "base/core/log.h"
#include "logits.h"
#include "output.h"
#include "prompts.h"
#include "generator.h"
#include "base/core/xmalloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_TEXTS = 8 };               /* texts generated together by default */
enum { LOGITS_AT_ONCE = 1024 * 1024 }; /* numbers that are sent together, at least a row */

struct generate {
    const struct generate_options *o;
    struct origin origin;
    struct ranks ranks;
    struct prompts prompts;
    struct generator *generator;
    int64_t texts; /* texts per round on each data-parallel rank */
    struct output output;
    struct logits *logits; /* of --logits; on rank 0 */
    struct error trouble;  /* an output error during a round */
};

/* --- Options --------------------------------------------------------------------------------- */

/* Greedy unless a sampling option is given. */
static struct sampling sampling_of(const struct generate_options *o)
{
    int with_top_k = o->top_k != -1, with_top_p = !isnan(o->top_p);

    return (struct sampling){
        .temperature = !isnan(o->temperature)     ? o->temperature
                       : with_top_k || with_top_p ? 1
                                                  : 0,
        .top_k = with_top_k ? o->top_k : 0,
        .top_p = with_top_p ? o->top_p : 0,
        .seed = (uint64_t)o->seed,
    };
}

/* tp and pp as requested; the other ranks form data-parallel groups with texts of their own. */
static int divide(struct generate *g, const struct world *world, struct layout *layout,
                  struct error *err)
{
    const struct generate_options *o = g->o;
    struct model_shape shape = g->origin.model.network.shape;

    *layout = (struct layout){
        .tp = o->tp > 0       ? o->tp
              : world->tp > 0 ? world->tp
                              : 1,
        .cp = 1,
        .pp = o->pp > 0       ? o->pp
              : world->pp > 0 ? world->pp
                              : 1,
    };
    if (layout_divide(layout, world->size, &layout_options, err) < 0)
        return -1;
    shape.sequence = layout->tp; /* passes are padded to a multiple of tp */
    return layout_check_model(layout, &shape, 1, &layout_options, err);
}

static int open_ranks(struct generate *g, const struct world *world, struct error *err)
{
    const struct generate_options *o = g->o;
    struct model_config *c = &g->origin.model;
    struct ranks_config config = {
        .device = (enum device_choice)o->device,
        .threads = o->threads,
        .deadline = 60.0 * o->timeout_minutes,
    };

    if (divide(g, world, &config.layout, err) < 0) {
        err->code = ERROR_USAGE;
        return world_say_once(0, err);
    }
    c->numerics.type = config.type = o->bf16 ? TYPE_BF16 : o->fp16 ? TYPE_FP16 : TYPE_FP32;
    c->padded_vocabulary = vocabulary_padded(c->network.shape.vocabulary, 128, config.layout.tp);
    return ranks_open(&g->ranks, &config, world, err);
}

/* --- The model ------------------------------------------------------------------------------- */

static int create_generator(struct generate *g, struct error *err)
{
    const struct prompts *p = &g->prompts;
    int64_t dp = g->ranks.parallel.layout.dp, share = (p->count + dp - 1) / dp;
    struct generator_config config = {
        .model = g->origin.model,
        .longest = p->longest,
        .vocabulary = p->vocabulary,
        .sampling = sampling_of(g->o),
        .stop_count = p->stop_count,
        .logits = g->o->logits != NULL,
        /* Slightly longer than comm's own timeout, because comm can name the collective that hangs.
         */
        .deadline = 60.0 * g->o->timeout_minutes + 10,
    };

    g->texts = g->o->texts > 0 ? g->o->texts : MOST_TEXTS;
    g->texts = config.texts = g->texts < share ? g->texts : share;
    memcpy(config.stops, p->stops, sizeof(config.stops));
    g->generator = generator_create(&config, &g->ranks.parallel, g->ranks.device, err);
    if (!g->generator || weights_load(g->o->load, &g->origin, generator_model(g->generator),
                                      &g->ranks.parallel, g->ranks.device, err) < 0)
        return -1;
    return generator_start(g->generator, err);
}

/* --- Rounds ---------------------------------------------------------------------------------- */

/* Texts of one round of a data-parallel rank. */
static struct text *texts_of(struct generate *g, int64_t round, int64_t dp, int64_t *count)
{
    int64_t first = (round * g->ranks.parallel.layout.dp + dp) * g->texts;
    int64_t left = g->prompts.count - first;

    *count = left < 0 ? 0 : left < g->texts ? left : g->texts;
    return g->prompts.texts + (*count > 0 ? first : 0);
}

/* Send the texts of other data-parallel ranks to rank 0: length, finish reason and ids of each. */
static int collect(struct generate *g, int64_t round, struct error *err)
{
    struct comm *comm = g->ranks.comm;
    const struct layout *layout = &g->ranks.parallel.layout;
    int64_t room = g->prompts.longest + 2, count;
    size_t numbers = (size_t)(g->texts * room);
    struct text *texts = texts_of(g, round, g->ranks.parallel.at.dp, &count);
    int32_t *mine, *all;
    int rc;

    if (layout->dp == 1)
        return 0;
    mine = xcalloc(numbers, sizeof(*mine));
    all = xcalloc(numbers * (size_t)comm->size, sizeof(*all));
    for (int64_t t = 0; t < count; t++) {
        int32_t *row = mine + t * room;

        row[0] = (int32_t)texts[t].length;
        row[1] = (int32_t)texts[t].finish;
        memcpy(row + 2, texts[t].ids, (size_t)texts[t].length * sizeof(*row));
    }
    rc = comm_host_gather(comm, mine, all, numbers * sizeof(*mine), err);
    for (int64_t dp = 0; dp < layout->dp && rc == 0; dp++) {
        int64_t rank = layout_rank(layout, (struct layout_position){.dp = dp});

        texts = texts_of(g, round, dp, &count);
        for (int64_t t = 0; t < count; t++) {
            const int32_t *row = all + rank * (int64_t)numbers + t * room;

            if (row[0] < 0 || row[0] > texts[t].limit) {
                rc = error_bug(err, "rank %lld sent a text of %d tokens", (long long)rank,
                               (int)row[0]);
                break;
            }
            texts[t].length = row[0];
            texts[t].finish = (enum finish)row[1];
            memcpy(texts[t].ids, row + 2, (size_t)row[0] * sizeof(*row));
        }
    }
    free(mine);
    free(all);
    return rc;
}

/* --- Logits ---------------------------------------------------------------------------------- */

/* On the first tensor-parallel rank of the last stage: room for those of its texts. */
static int allocate_logits(struct generate *g, struct text *texts, int64_t count, struct error *err)
{
    size_t row = (size_t)g->origin.model.network.shape.vocabulary * sizeof(float);

    if (!g->o->logits || g->ranks.parallel.at.tp != 0 || !parallel_last_stage(&g->ranks.parallel))
        return 0;
    for (int64_t t = 0; t < count; t++) {
        texts[t].logits = calloc((size_t)texts[t].limit, row);
        if (!texts[t].logits)
            return error_set(err, "the logits of %" PRId64 " tokens: out of memory",
                             texts[t].limit);
    }
    return 0;
}

/* Send one text's logits from 'owner' to rank 0, a few rows at a time, and write them there. */
static int write_logits(struct generate *g, const struct text *text, int owner, struct error *err)
{
    struct comm *comm = g->ranks.comm;
    int64_t vocabulary = g->origin.model.network.shape.vocabulary, rows = text_rows(text);
    int64_t most = 1 + LOGITS_AT_ONCE / vocabulary;
    float *part = xcalloc((size_t)(most * vocabulary), sizeof(*part));
    int rc = 0;

    if (comm->rank == 0)
        rc = logits_next(g->logits, text->ids, rows, err);
    for (int64_t at = 0; at < rows && rc == 0; at += most) {
        int64_t count = rows - at < most ? rows - at : most;
        size_t bytes = (size_t)(count * vocabulary) * sizeof(*part);

        if (comm->rank == owner)
            memcpy(part, text->logits + at * vocabulary, bytes);
        if (owner != 0)
            rc = comm_host_broadcast(comm, part, bytes, owner, err);
        if (rc == 0 && comm->rank == 0)
            rc = logits_add(g->logits, part, count, err);
    }
    free(part);
    return rc;
}

/* The logits of a round, in the order of the prompts. */
static int write_round(struct generate *g, int64_t round, struct error *err)
{
    const struct layout *layout = &g->ranks.parallel.layout;
    int64_t count;

    for (int64_t dp = 0; g->o->logits && dp < layout->dp; dp++) {
        struct text *texts = texts_of(g, round, dp, &count);
        struct layout_position at = {.dp = dp, .pp = layout->pp - 1};

        for (int64_t t = 0; t < count; t++) {
            if (write_logits(g, &texts[t], (int)layout_rank(layout, at), err) < 0)
                return -1;
            free(texts[t].logits);
            texts[t].logits = NULL;
        }
    }
    return 0;
}

/* --- Rounds ---------------------------------------------------------------------------------- */

static void show(void *context)
{
    struct generate *g = context;

    if (g->ranks.comm->rank == 0 && g->trouble.text[0] == '\0')
        output_show(&g->output, &g->trouble);
}

static int run_round(struct generate *g, int64_t round, struct error *err)
{
    const struct parallel *parallel = &g->ranks.parallel;
    int64_t count, dp = parallel->layout.dp, first = round * dp * g->texts;
    int64_t all = g->prompts.count - first;
    struct text *texts = texts_of(g, round, parallel->at.dp, &count);

    g->output = (struct output){
        .tokenizer = g->prompts.tokenizer,
        .stream = stdout,
        /* Not through a pipe: some launchers pass parts of lines on to another stream (mpirun of
         * Open MPI 5). */
        .growing = isatty(STDOUT_FILENO),
        .json = g->o->json,
        .texts = g->prompts.texts + first,
        .count = all < dp * g->texts ? all : dp * g->texts,
        .before = first,
    };
    if (allocate_logits(g, texts, count, err) < 0)
        return -1;
    if (count > 0 && generator_run(g->generator, texts, count, dp == 1 ? show : NULL, g, err) < 0)
        return -1;
    if (collect(g, round, err) < 0 || write_round(g, round, err) < 0)
        return -1;
    show(g);
    if (g->trouble.text[0]) {
        *err = g->trouble;
        return -1;
    }
    return 0;
}

static void report(const struct generate *g)
{
    struct generator_times t = generator_times(g->generator);
    int64_t written = 0, dp = g->ranks.parallel.layout.dp;
    char groups[64] = "";

    if (g->ranks.comm->rank != 0)
        return;
    for (int64_t i = 0; i < g->prompts.count; i++)
        written += g->prompts.texts[i].length - g->prompts.texts[i].prompt;
    if (dp > 1)
        snprintf(groups, sizeof(groups), " on each of %" PRId64 " data-parallel groups", dp);
    log_note("%" PRId64
             " tokens generated; prompts %.1f tokens/s (%.2f s), generation %.1f tokens/s "
             "(%.2f s)%s",
             written, (double)t.prompt_tokens / (t.prompt_seconds + 1e-9), t.prompt_seconds,
             (double)t.tokens / (t.seconds + 1e-9), t.seconds, groups);
}

static int run(struct generate *g, struct error *err)
{
    int64_t each;

    if (prompts_read(&g->prompts, g->o, &g->origin, g->ranks.comm, err) < 0)
        return -1;
    if (g->o->logits && g->ranks.comm->rank == 0) {
        g->logits = logits_create(g->o->logits, g->prompts.count,
                                  g->origin.model.network.shape.vocabulary, err);
        if (!g->logits)
            return -1;
    }
    if (create_generator(g, err) < 0)
        return -1;
    each = g->texts * g->ranks.parallel.layout.dp;
    for (int64_t round = 0; round * each < g->prompts.count; round++)
        if (run_round(g, round, err) < 0)
            return -1;
    report(g);
    return g->logits ? logits_finish(g->logits, err) : 0;
}

int generate_run(const struct generate_options *options, const struct world *world,
                 struct error *err)
{
    struct generate g = {.o = options};
    int rc;

    /* Wrong options are reported once, missing files once per node. */
    if (origin_read(&g.origin, options->load, err) < 0)
        return world_say_once(1, err);
    if (g.origin.model.network.masked) {
        error_set_code(err, ERROR_USAGE,
                       "%s contains a masked language model, which cannot generate text; use "
                       "megatron fill-mask",
                       options->load);
        return world_say_once(0, err);
    }
    rc = open_ranks(&g, world, err);
    if (rc == 0)
        rc = run(&g, err);
    if (rc < 0 && g.ranks.comm)
        comm_abort(g.ranks.comm, err->text);
    generator_destroy(g.generator);
    logits_destroy(g.logits);
    prompts_clear(&g.prompts);
    ranks_close(&g.ranks);
    return rc;
}
