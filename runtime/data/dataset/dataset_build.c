/* SPDX-License-Identifier: Apache-2.0 */
/* Open the corpora of all splits, and get the indices of their samples and blends. A member is one
 * corpus in one split; threads open and build members in parallel. */
#include "config.h"
#include "dataset_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "base/core/threads.h"
#include "base/core/xmalloc.h"
#include "bert.h"

/* One member of one split: a corpus to open and an index to get. */
struct task {
    struct dataset *dataset;
    struct blend_member *member;
    const char *prefix;
    double weight; /* the user's, normalized; 0: none were given */
    const struct split_range *range;
    int64_t first, count; /* its part of the corpus: sequences, or documents for BERT */
    int64_t samples;      /* to take from it; negative: one epoch */
    bool is_empty;        /* too small for a sample */
};

struct builder {
    const struct dataset_config *config;
    struct dataset **splits;
    struct data_paths paths;
    struct task *tasks;
    size_t task_count;
    int threads;              /* for each task */
    char own_cache[PATH_MAX]; /* in the temporary directory; "" if there is none */
};

/* Do 'count' sequences have more than 'most' tokens? Returns 1, 0 or -1. */
static int has_more(const struct indexed *corpus, int64_t first, int64_t count, int64_t most,
                    struct error *err)
{
    enum { PIECE = 4096 };
    int32_t lengths[PIECE];
    int64_t tokens = 0;

    for (int64_t done = 0; done < count && tokens <= most; done += PIECE) {
        int64_t part = count - done < PIECE ? count - done : PIECE;

        if (indexed_lengths(corpus, first + done, part, lengths, err) < 0)
            return -1;
        for (int64_t i = 0; i < part; i++)
            tokens += lengths[i];
    }
    return tokens > most;
}

/* Open a member, and see whether its part has a sample. Fewer tokens than one sample are enough if
 * they may be repeated. */
static int open_member(void *arg, int64_t i, struct error *err)
{
    const struct builder *builder = arg;
    struct task *task = &builder->tasks[i];
    const struct dataset *dataset = task->dataset;
    int more;

    task->member->corpus = indexed_open(task->prefix, err);
    if (!task->member->corpus ||
        data_paths_part(task->member->corpus, dataset->split, dataset->bert, task->range,
                        &task->first, &task->count, err) < 0)
        return -1;
    task->is_empty = task->count == 0;
    if (dataset->bert || dataset->split == DATASET_TRAIN)
        return 0;
    more = has_more(task->member->corpus, task->first, task->count,
                    task->samples < 0 ? dataset->sequence_length : 0, err);
    task->is_empty = more == 0;
    return more < 0 ? -1 : 0;
}

static int build_member(void *arg, int64_t i, struct error *err)
{
    const struct builder *builder = arg;
    const struct task *task = &builder->tasks[i];
    const char *split = dataset_split_name(task->dataset->split);
    struct gpt_request request = {
        .corpus = task->member->corpus,
        .first = task->first,
        .count = task->count,
        .sequence_length = task->dataset->sequence_length,
        .samples = task->samples,
        .seed = builder->config->seed,
    };
    char beside[PATH_MAX];
    struct index_place place =
        cache_place(builder->config, builder->own_cache, task->prefix, beside);

    if (task->dataset->bert)
        task->member->index = bert_index_get(request.corpus, request.first, request.count,
                                             &task->dataset->bert_config, request.sequence_length,
                                             task->samples, request.seed, split, &place, err);
    else
        task->member->index = gpt_index_get(&request, split, &place, builder->threads, err);
    return task->member->index ? 0 : -1;
}

/* A blend whose only member is used directly. Megatron treats the options differently here: one
 * weighted prefix is a blend with --data-path, but not with --train-data-path. */
static bool is_single(const struct builder *builder, enum dataset_split split)
{
    const struct blend *blend = &builder->paths.blends[split];

    return blend->count == 1 && (!blend->weights || builder->config->split_path[split].count > 0);
}

/* Samples to take from a member of 'weight'; negative: one epoch. */
static int64_t samples_of(const struct builder *builder, enum dataset_split split, double weight)
{
    int64_t wanted = builder->config->samples[split];

    if (is_single(builder, split))
        return wanted;
    return builder->paths.blends[split].weights ? blend_with_surplus(wanted, weight) : -1;
}

static int plan_split(struct builder *builder, enum dataset_split split, struct error *err)
{
    const struct blend *blend = &builder->paths.blends[split];
    int64_t wanted = builder->config->samples[split];
    struct dataset *dataset;

    if (wanted == 0 || blend->count == 0 || !builder->paths.ranges[split].present)
        return 0;
    if (wanted < 0 && blend->weights && !is_single(builder, split))
        return error_set_code(
            err, ERROR_USAGE,
            "%s data: a blend with weights never ends, so all of it cannot be used; "
            "drop the weights, or name one corpus",
            dataset_split_name(split));
    dataset = builder->splits[split] = dataset_new(builder->config, split, blend->count);
    for (size_t i = 0; i < blend->count; i++) {
        struct task *task = &builder->tasks[builder->task_count++];

        task->dataset = dataset;
        task->member = &dataset->members[i];
        task->prefix = blend->prefixes[i];
        task->range = &builder->paths.ranges[split];
        task->weight = blend->weights ? blend->weights[i] : 0;
        task->samples = samples_of(builder, split, task->weight);
    }
    return 0;
}

static void note_left_out(struct dataset *dataset, const char *prefix)
{
    size_t used = strlen(dataset->left_out_names), room = sizeof(dataset->left_out_names) - used;

    dataset->left_out++;
    if (strlen(prefix) + 6 < room)
        snprintf(dataset->left_out_names + used, room, "%s%s", used ? ", " : "", prefix);
    else if (used < 3 || strcmp(dataset->left_out_names + used - 3, "...") != 0)
        snprintf(dataset->left_out_names + used, room, "%s...", used ? ", " : "");
}

/* Leave out the members whose part has no sample: a small corpus of a blend has no validation data,
 * and that is no reason not to train on it. The others share its weight. */
static void leave_out_empty(struct builder *builder)
{
    size_t kept = 0;

    for (int i = 0; i < DATASET_SPLITS; i++)
        if (builder->splits[i])
            builder->splits[i]->member_count = builder->paths.blends[i].count = 0;
    for (size_t i = 0; i < builder->task_count; i++) {
        struct task task = builder->tasks[i];
        struct blend *blend = &builder->paths.blends[task.dataset->split];
        struct blend_member member = *task.member;

        *task.member = (struct blend_member){0};
        if (task.is_empty) {
            indexed_close(member.corpus);
            note_left_out(task.dataset, task.prefix);
            continue;
        }
        task.member = &task.dataset->members[task.dataset->member_count++];
        *task.member = member;
        blend->prefixes[blend->count] = task.prefix;
        if (blend->weights)
            blend->weights[blend->count] = task.weight;
        blend->count++;
        builder->tasks[kept++] = task;
    }
    builder->task_count = kept;
}

/* The others' weights and numbers of samples. */
static void plan_samples(struct builder *builder)
{
    int64_t place[DATASET_SPLITS] = {0};

    for (int i = 0; i < DATASET_SPLITS; i++)
        if (builder->splits[i] && builder->splits[i]->left_out > 0 &&
            builder->paths.blends[i].weights)
            blend_normalise(builder->paths.blends[i].weights, builder->paths.blends[i].count);
    for (size_t i = 0; i < builder->task_count; i++) {
        struct task *task = &builder->tasks[i];
        enum dataset_split split = task->dataset->split;
        int64_t number = place[split]++;

        if (builder->paths.blends[split].weights)
            task->weight = builder->paths.blends[split].weights[number];
        task->samples = samples_of(builder, split, task->weight);
    }
}

static int blend_split(struct builder *builder, enum dataset_split split, struct error *err)
{
    struct dataset *dataset = builder->splits[split];
    const struct blend *blend = &builder->paths.blends[split];
    struct index_place place;
    char beside[PATH_MAX];

    if (!dataset)
        return 0;
    if (dataset->member_count == 0 && builder->config->split_path[split].count > 0)
        return error_set_code(err, ERROR_USAGE,
                              "%s: shorter than one sample of %s data; use more data",
                              dataset->left_out_names, dataset_split_words(split));
    if (dataset->member_count == 0) {
        dataset_destroy(dataset);
        builder->splits[split] = NULL;
        return 0;
    }
    if (is_single(builder, split)) {
        dataset->samples = dataset_part_samples(dataset, 0);
        return 0;
    }
    place = cache_place(builder->config, builder->own_cache, blend->prefixes[0], beside);
    return blend_index_get(dataset, blend->weights, builder->config->samples[split], &place, err);
}

/* Raise the limit on open files for the data, beyond what everything else needs. */
static int allow_files(size_t tasks, struct error *err)
{
    enum { FILES_OF_TASK = 3 }; /* .bin, .idx and the index */
    struct rlimit limit;
    rlim_t wanted = tasks * FILES_OF_TASK;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return 0;
    if (wanted >= limit.rlim_max)
        return error_set(err,
                         "the corpora need %zu open files, but the limit is %zu; raise the hard "
                         "limit (ulimit -Hn), or merge the files",
                         (size_t)wanted, (size_t)limit.rlim_max);
    wanted += limit.rlim_cur;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return 0;
}

static int build_all(struct builder *builder, struct error *err)
{
    int threads = index_threads(builder->config->threads), outer;
    size_t most = 0;

    for (int i = 0; i < DATASET_SPLITS; i++)
        most += builder->paths.blends[i].count;
    builder->tasks = xcalloc(most, sizeof(*builder->tasks));
    for (int i = 0; i < DATASET_SPLITS; i++)
        if (plan_split(builder, (enum dataset_split)i, err) < 0)
            return -1;
    if (allow_files(builder->task_count, err) < 0)
        return -1;
    outer = builder->task_count < (size_t)threads ? (int)builder->task_count : threads;
    if (threads_loop(outer, (int64_t)builder->task_count, open_member, builder, err) < 0)
        return -1;
    leave_out_empty(builder);
    plan_samples(builder);
    outer = builder->task_count < (size_t)threads ? (int)builder->task_count : threads;
    builder->threads = outer > 0 ? (threads + outer - 1) / outer : 1;
    if (threads_loop(outer, (int64_t)builder->task_count, build_member, builder, err) < 0)
        return -1;
    for (int i = 0; i < DATASET_SPLITS; i++)
        if (blend_split(builder, (enum dataset_split)i, err) < 0)
            return -1;
    return 0;
}

int dataset_build(const struct dataset_config *config, struct dataset *splits[DATASET_SPLITS],
                  struct error *err)
{
    struct builder builder = {.config = config, .splits = splits};
    int status = data_paths_read(config, &builder.paths, err);

    if (!config->cache_path)
        cache_own_directory(builder.own_cache);
    if (status == 0)
        status = build_all(&builder, err);
    data_paths_clear(&builder.paths);
    free(builder.tasks);
    return status;
}
