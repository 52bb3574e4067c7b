/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint_private.h"
#include "base/core/xmalloc.h"
#include "lib/clock.h"
#include "directory.h"
#include "base/core/storage.h"
#include "base/core/half.h"
#include "reshard.h"
#include "scaling_file.h"
#include "base/core/threads.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Why one checkpoint cannot be used: it does not match this run, or it is damaged for any rank. */
enum { REFUSED = CHECKPOINT_REFUSED, DAMAGED = CHECKPOINT_DAMAGED };

enum { PAGE = 4096, STRIPES = 64 };

/* --- Choosing a checkpoint ------------------------------------------------------------------- */

/* The iteration of --ckpt-step, if it exists; otherwise -1. */
static int64_t asked_for(const struct checkpoint *c)
{
    char name[32];

    snprintf(name, sizeof(name), "iter_%07" PRId64, c->config.step);
    return directory_has(c->config.load, name) ? c->config.step : -1;
}

/* The leader chooses for all ranks. A directory that cannot be read is not an empty one. */
static int choose(struct checkpoint *c, int64_t below, int64_t *iteration, struct error *err)
{
    int rc = 0;

    *iteration = -1;
    if (c->leads && c->config.step >= 0) {
        *iteration = below < 0 ? asked_for(c) : -1; /* this iteration or none */
    } else if (c->leads && directory_newest(c->config.load, below, iteration, err) < 0) {
        /* Permanent errors; any other file system error may go away. */
        rc = errno == EACCES || errno == ENOTDIR || errno == ENAMETOOLONG ? REFUSED : -1;
        error_prefix(err, "cannot load a checkpoint");
    }
    rc = checkpoint_agree(c, rc, err);
    return rc < 0 ? rc : checkpoint_from_leader(c, iteration, err);
}

/* --- Loading --------------------------------------------------------------------------------- */

static int wants_optimizer(const struct checkpoint *c)
{
    return c->config.load_optimizer && !c->config.finetune;
}

/* As users name it. An index may contain any number. */
static const char *optimizer_name(enum optimizer_kind kind)
{
    static const char *const names[] = {
        [OPTIMIZER_ADAM] = "adam", [OPTIMIZER_SGD] = "sgd", [OPTIMIZER_MUON] = "muon"};

    return (size_t)kind < sizeof(names) / sizeof(*names) ? names[kind] : "(unknown)";
}

static int check_index(struct checkpoint *c, const struct checkpoint_index *index,
                       struct error *err)
{
    if (index_check_model(index, c->config.model, err) < 0)
        return REFUSED;
    if (!wants_optimizer(c))
        return 0;
    if (index->arrays < ARRAYS) {
        error_set(err, "it was saved without optimizer state");
        error_append(err, "; use --no-load-optim or --finetune");
        return REFUSED;
    }
    if (index->rules.optimizer != c->config.rules->optimizer) {
        error_set(err, "it was saved with optimizer %s, but this run uses optimizer %s",
                  optimizer_name(index->rules.optimizer),
                  optimizer_name(c->config.rules->optimizer));
        error_append(err, "; use --no-load-optim or --finetune");
        return REFUSED;
    }
    if (!c->config.override_scheduler && index_check_rules(index, c->config.rules, err) < 0)
        return REFUSED;
    return 0;
}

/* Copy an array, whose first elements are in host memory, to its destination. The values of a
 * 16-bit array are rounded in 'from'. */
static void upload_array(struct checkpoint *c, enum device_type type, void *here, void *host,
                         float *from)
{
    size_t size = type_size(type), hosted = (size_t)c->arrays.hosted;
    size_t rest = (size_t)c->parameters->shard_elements - hosted;

    if (type == TYPE_BF16)
        bfloat_narrow(from, c->parameters->shard_elements);
    if (hosted > 0)
        device_copy(model_facts(c->model).stream, host, from, hosted * size, COPY_ON_HOST);
    if (rest > 0)
        device_copy(model_facts(c->model).stream, here, (char *)from + hosted * size, rest * size,
                    COPY_TO_DEVICE);
}

/* Copy this rank's shard from host memory to its destination: weights go to its part of the
 * model's start weights, from which the data-parallel ranks gather them. */
static int upload(struct checkpoint *c, float *const *parts, int arrays, struct error *err)
{
    struct device_stream *stream = model_facts(c->model).stream;
    const struct parameters *p = c->parameters;
    float *weights = model_facts(c->model).start_weights;

    for (int i = 0; i < p->bucket_count; i++) {
        const struct bucket *b = &p->buckets[i];
        struct range mine = bucket_shard(b, c->shard);
        float *part = weights + mine.first;

        device_copy(stream, part, parts[0] + b->shard_first, (size_t)mine.count * sizeof(float),
                    COPY_TO_DEVICE);
        if (b->shards > 1)
            comm_all_gather(c->parallel->data, stream, part, weights + b->first, (size_t)mine.count,
                            TYPE_FP32);
    }
    if (arrays == ARRAYS && parts[1] != c->arrays.moment1) {
        upload_array(c, c->arrays.moment1_type, c->arrays.moment1, c->arrays.host_moment1,
                     parts[1]);
        upload_array(c, c->arrays.moment2_type, c->arrays.moment2, c->arrays.host_moment2,
                     parts[2]);
    }
    return device_stream_wait(stream, c->parallel->comm->deadline, err);
}

static int by_offset(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;

    return x->shard < y->shard ? -1 : x->shard > y->shard;
}

/* Padding between the pieces is 0. */
static void clear_gaps(const struct pieces *held, float *const *parts, int arrays, int64_t elements)
{
    struct piece *sorted = xcalloc((size_t)held->count + 1, sizeof(*sorted));
    int64_t at = 0;

    memcpy(sorted, held->list, (size_t)held->count * sizeof(*sorted));
    qsort(sorted, (size_t)held->count, sizeof(*sorted), by_offset);
    for (int i = 0; i <= held->count; i++) {
        int64_t end = i < held->count ? sorted[i].shard : elements;

        for (int a = 0; a < arrays && end > at; a++)
            memset(parts[a] + at, 0, (size_t)(end - at) * sizeof(float));
        at = i < held->count ? end + sorted[i].count : end;
    }
    free(sorted);
}

/* Untouched memory must first be allocated by the kernel, page by page, which can take longer than
 * reading the file. Done separately, it does not delay the disk. */
struct room {
    float *const *parts;
    int arrays;
    int64_t elements;
};

static void touch(void *context, int64_t stripe)
{
    const struct room *room = context;
    int64_t page = PAGE / (int64_t)sizeof(float), size = room->elements / STRIPES + 1;
    int64_t begin = stripe * size;
    int64_t end = begin + size < room->elements ? begin + size : room->elements;

    for (int a = 0; a < room->arrays; a++)
        for (int64_t i = begin; i < end; i += page)
            *(volatile float *)&room->parts[a][i] = 0;
}

static int touch_all(struct room *room, struct error *err)
{
    struct threads *threads = threads_create(0, err);

    if (!threads)
        return -1;
    threads_run(threads, STRIPES, touch, room);
    threads_destroy(threads);
    return 0;
}

/* --- The scaling state of fp8 ----------------------------------------------------------------- */

static const char *format_name(int hybrid)
{
    return hybrid ? "hybrid" : "e4m3";
}

/* Append "option (theirs, here ours)" to the text if they differ. */
static void add_difference(char *text, size_t size, const char *option, const char *theirs,
                           const char *ours)
{
    size_t used = strlen(text);

    if (strcmp(theirs, ours) != 0)
        snprintf(text + used, size - used, "%s%s (%s, here %s)", used ? ", " : "", option, theirs,
                 ours);
}

static void add_number(char *text, size_t size, const char *option, int64_t theirs, int64_t ours)
{
    char a[24], b[24];

    snprintf(a, sizeof(a), "%" PRId64, theirs);
    snprintf(b, sizeof(b), "%" PRId64, ours);
    add_difference(text, size, option, a, b);
}

/* Both runs use fp8: name the options that differ, and what becomes of the scaling state. */
static void compare_rules(const struct checkpoint *c, const struct scaling_found *found)
{
    const struct scaling_rules *rules = &c->scaling_rules;
    int taken = found->delayed && rules->delayed && found->hybrid == rules->hybrid;
    char text[400] = "";

    add_difference(text, sizeof(text), "--fp8-format", format_name(found->hybrid),
                   format_name(rules->hybrid));
    add_difference(text, sizeof(text), "--fp8-recipe",
                   scaling_recipe_name(found->delayed, found->blocks),
                   scaling_recipe_name(rules->delayed, rules->blocks));
    if (found->delayed && rules->delayed)
        add_number(text, sizeof(text), "--fp8-amax-history-len", found->length, rules->length);
    if (found->delayed && rules->delayed) {
        add_number(text, sizeof(text), "--fp8-margin", found->margin, rules->margin);
        add_difference(text, sizeof(text), "--fp8-amax-compute-algo",
                       scaling_algorithm_name(found->most_recent),
                       scaling_algorithm_name(rules->most_recent));
    }
    if (text[0])
        checkpoint_warn(
            c,
            "the checkpoint was trained with other settings of fp8: %s; %s%s%s, no "
            "action is needed",
            text, taken ? "the amax history is taken over" : "",
            taken && !scaling_same_scales(found, rules) ? ", and " : "",
            taken && scaling_same_scales(found, rules) ? "" : "the first step uses current amaxes");
}

/* Say how the run differs from the one that wrote the checkpoint. */
static void compare_scaling(const struct checkpoint *c, const struct scaling_found *found)
{
    if (!c->scaling && found->present)
        checkpoint_warn(c,
                        "the checkpoint was trained in fp8 (%s, %s scaling), and this run does not "
                        "use fp8; to continue in fp8, %s",
                        format_name(found->hybrid),
                        scaling_recipe_name(found->delayed, found->blocks),
                        "use --fp8-format and --fp8-recipe as before");
    else if (c->scaling && !found->present)
        checkpoint_warn(c, "the checkpoint has no fp8 scales: it was trained without fp8; the "
                           "first step computes them, no action is needed");
    else if (c->scaling)
        compare_rules(c, found);
}

static int upload_scaling(struct checkpoint *c, struct error *err)
{
    struct device_stream *stream = model_facts(c->model).stream;

    device_copy(stream, model_facts(c->model).scaling, c->scaling,
                (size_t)fp8_layers_kept(&c->scaling_rules) * sizeof(float), COPY_TO_DEVICE);
    return device_stream_wait(stream, c->parallel->comm->deadline, err);
}

/* --- A checkpoint ----------------------------------------------------------------------------- */

/* Read this rank's shard. 0, REFUSED, DAMAGED, CHECKPOINT_UNREADABLE, or -1 for errors that are not
 * the checkpoint's fault. */
static int read_share(struct checkpoint *c, const char *directory, struct checkpoint_index *index,
                      float *const *parts, int arrays, struct error *err)
{
    int64_t elements = c->parameters->shard_elements;
    struct pieces held;
    int rc;

    rc = index_load(index, directory, err);
    if (rc == 0)
        rc = check_index(c, index, err);
    if (rc < 0)
        return rc;
    pieces_create(&held, c->parameters, &c->parallel->at, c->shard, PIECES_HELD);
    clear_gaps(&held, parts, arrays, elements);
    rc = reshard_read(directory, index, c->parameters, &held, parts, arrays, err);
    pieces_destroy(&held);
    return rc;
}

static void fill_loaded(struct checkpoint *c, const struct checkpoint_index *index,
                        struct checkpoint_loaded *loaded)
{
    loaded->found = 1;
    loaded->iteration = index->progress.iteration;
    if (c->config.finetune)
        return;
    loaded->progress = index->progress;
    /* With another seed, the remaining samples would not be the unseen ones. */
    if (c->config.load_rng && index->progress.consumed > 0)
        loaded->seed = index->state.seed;
    if (loaded->seed != c->config.model->seed)
        checkpoint_warn(
            c,
            "the run continues with seed %" PRIu64 " of its checkpoint, not with %" PRIu64 "; %s",
            loaded->seed, c->config.model->seed, "add --no-load-rng to use the new seed");
    loaded->resumes = c->config.load_optimizer;
    loaded->state = index->state;
}

/* Try one checkpoint; all ranks get the same result. */
static int try_one(struct checkpoint *c, int64_t iteration, float *const *parts,
                   struct checkpoint_loaded *loaded, double *reading, struct error *err)
{
    struct checkpoint_index index = {0};
    char directory[PATH_MAX];
    int arrays = wants_optimizer(c) ? ARRAYS : 1, rc;
    struct room room = {parts, arrays, c->parameters->shard_elements};
    struct scaling_found found = {0};
    double began;

    rc = directory_path(directory, err, "%s/iter_%07" PRId64, c->config.load, iteration);
    if (rc == 0)
        rc = touch_all(&room, err);
    began = clock_now();
    if (rc == 0)
        rc = read_share(c, directory, &index, parts, arrays, err);
    if (rc == 0 && wants_optimizer(c)) {
        rc =
            scaling_file_read(directory, &index.scales, &c->scaling_rules, c->scaling, &found, err);
        /* A run that does not use fp8 does not need it. */
        if (!c->scaling)
            rc = 0;
    }
    /* Data that the disk cannot read is lost for the run. */
    if (rc == CHECKPOINT_UNREADABLE)
        rc = DAMAGED;
    rc = checkpoint_agree(c, rc, err);
    *reading = clock_now() - began;
    if (rc == 0)
        rc = upload(c, parts, arrays, err);
    if (rc == 0 && c->scaling && wants_optimizer(c))
        rc = upload_scaling(c, err);
    if (rc == 0 && wants_optimizer(c))
        compare_scaling(c, &found);
    if (rc == 0)
        fill_loaded(c, &index, loaded);
    else if (rc != DAMAGED)
        error_prefix(err, "cannot load %s", directory);
    index_clear(&index);
    return rc;
}

/* Explain what the directory contains instead of a checkpoint. */
static int found_other(const struct checkpoint *c, struct error *err)
{
    int64_t *list = NULL;
    size_t count = 0;

    if (directory_check_megatron(c->config.load, err) < 0)
        return REFUSED;
    directory_list(c->config.load, &list, &count, NULL);
    if (c->config.step >= 0 && count > 0) {
        error_set(err, "%s contains no checkpoint of iteration %" PRId64, c->config.load,
                  c->config.step);
        error_append(err, "; choose another iteration with --ckpt-step");
    } else if (directory_has(c->config.load, "config.json")) {
        error_set(err, "%s is a Hugging Face folder", c->config.load);
        error_append(err, "; use --load-hf instead of --load");
    } else if (directory_has(c->config.load, INDEX_NAME)) {
        error_set(err, "%s is a single checkpoint; use its parent directory", c->config.load);
    } else {
        error_set(err, "%s contains no checkpoint (no iter_* directory)", c->config.load);
        error_append(
            err, "; %s",
            c->config.must_find
                ? "correct --load"
                : "to start a new run that can be resumed, use the same directory for --save");
    }
    free(list);
    return REFUSED;
}

/* Does the run save to the directory it loads from? */
static int goes_on(const struct checkpoint *c)
{
    return c->config.save && file_is_same(c->config.load, c->config.save);
}

/* Does the run abandon the later checkpoints in --save? It does if it goes back with --ckpt-step,
 * or if --save is a copy of the directory that it loads from. */
static int leaves_later(const struct checkpoint *c, int64_t iteration)
{
    char path[PATH_MAX];

    if (!c->config.save || c->config.finetune)
        return 0;
    if (goes_on(c))
        return c->config.step >= 0;
    return directory_path(path, NULL, "%s/iter_%07" PRId64, c->config.save, iteration) == 0 &&
           directory_has(path, INDEX_NAME);
}

/* No checkpoint: expected at the first start of a run that saves to the same directory. */
static int found_none(struct checkpoint *c, struct error *err)
{
    if (!c->config.must_find && c->config.step < 0 && goes_on(c)) {
        checkpoint_say(c, "no checkpoint in %s yet: starting from scratch", c->config.load);
        return 0;
    }
    return found_other(c, err);
}

/* None of the checkpoints can be read; 'last' is the reason for the last one. */
static int found_damaged(const struct checkpoint *c, const struct error *last, struct error *err)
{
    if (directory_check_megatron(c->config.load, err) < 0)
        return REFUSED;
    if (err)
        *err = *last;
    if (c->config.step >= 0) {
        error_prefix(err, "the checkpoint of iteration %" PRId64 " in %s is damaged",
                     c->config.step, c->config.load);
        return error_append(err, "; choose another iteration with --ckpt-step");
    }
    error_prefix(err, "%s contains no intact checkpoint", c->config.load);
    /* Only training can start without one. */
    if (c->config.must_find || c->config.finetune)
        return error_advise(err, CHECKPOINT_REMEDY);
    return error_append(err,
                        "; to start from scratch, use another directory for --load and --save");
}

static void warn_damage(const struct checkpoint *c, int64_t iteration, struct error damage)
{
    if (c->config.step < 0)
        error_append(&damage, "; trying the one before it");
    checkpoint_warn(c, "checkpoint iter_%07" PRId64 " is damaged: %s", iteration, damage.text);
}

/* The buffers to read into. On the CPU, moments in fp32 are read directly into their arrays. */
static float *make_room(struct checkpoint *c, float *parts[ARRAYS], struct error *err)
{
    int64_t elements = c->parameters->shard_elements;
    int in_place = strcmp(c->device->name, "cpu") == 0 && c->arrays.moment1 &&
                   c->arrays.hosted == 0 && c->arrays.moment1_type == TYPE_FP32 &&
                   c->arrays.moment2_type == TYPE_FP32;
    float *host = device_host_allocate(
        c->device, (size_t)(elements * (in_place ? 1 : ARRAYS)) * sizeof(float), err);

    parts[0] = host;
    parts[1] = in_place ? c->arrays.moment1 : host + elements;
    parts[2] = in_place ? c->arrays.moment2 : host + 2 * elements;
    if (host &&
        device_stream_wait(model_facts(c->model).stream, c->parallel->comm->deadline, err) < 0) {
        device_host_release(c->device, host);
        return NULL;
    }
    return host;
}

int checkpoint_load(struct checkpoint *c, struct checkpoint_loaded *loaded, struct error *err)
{
    float *parts[ARRAYS], *host = make_room(c, parts, err);
    int64_t iteration = -1, below = -1;
    struct error damage;
    double began = 0, reading = 0;
    int rc = host ? DAMAGED : -1, tried = 0;

    *loaded = (struct checkpoint_loaded){.seed = c->config.model->seed};
    while (rc == DAMAGED) {
        int chosen = choose(c, below, &iteration, err);

        if (chosen < 0) {
            rc = chosen;
            break;
        }
        if (iteration < 0) {
            rc = tried ? found_damaged(c, &damage, err) : found_none(c, err);
            rc = checkpoint_agree(c, rc, err);
            break;
        }
        began = clock_now();
        checkpoint_say(c, " loading checkpoint from %s at iteration %" PRId64, c->config.load,
                       iteration);
        rc = try_one(c, iteration, parts, loaded, &reading, err);
        if (rc == DAMAGED) {
            tried = 1;
            damage = *err;
            if (directory_check_megatron(c->config.load, err) < 0)
                checkpoint_warn(
                    c, "checkpoint iter_%07" PRId64 " was written by Megatron-LM; %s", iteration,
                    "import it first: megatron checkpoint import SOURCE DIR --format megatron");
            else
                warn_damage(c, iteration, damage);
        }
        below = iteration;
    }
    device_host_release(c->device, host);
    if (rc == 0 && loaded->found && leaves_later(c, iteration))
        c->back_to = iteration;
    if (rc == 0 && loaded->found)
        checkpoint_say(c,
                       "  successfully loaded checkpoint from %s at iteration %" PRId64
                       " (%.3f s, of which reading took %.3f s)",
                       c->config.load, iteration, clock_now() - began, reading);
    return rc;
}
