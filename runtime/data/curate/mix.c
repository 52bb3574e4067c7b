/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "mix.h"
#include "lib/clock.h"
#include "lines.h"
#include "base/core/rng.h"
#include "sections.h"
#include "base/core/list.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Map each file to its --input argument. All ranks find the same files, or there is an error. */
static int find_sources(struct mix *mix, struct error *err)
{
    const struct jobs_config *config = mix->engine->config;
    size_t at = 0, total = mix->engine->plan.files.count;

    mix->source_of = xcalloc(total + 1, sizeof(*mix->source_of));
    for (size_t i = 0; i < mix->count; i++) {
        struct corpus_files files = {.items = NULL};
        int rc = corpus_files_find(&files, &config->inputs[i], 1, config->output, err);

        for (size_t k = 0; rc == 0 && k < files.count; k++, at++) {
            if (at >= total || strcmp(files.items[k].path, mix->engine->plan.files.items[at].path))
                rc = error_set(err,
                               "%s: files were added or removed since the run began; restore "
                               "them, or start again with another output",
                               config->inputs[i]);
            else
                mix->source_of[at] = (uint32_t)i;
        }
        corpus_files_clear(&files);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* --- Count ------------------------------------------------------------------------------------ */

struct counting {
    const struct mix *mix;
    struct source_counts *counts;
    struct lines *sizes; /* NULL: take all documents */
};

static int count_document(void *context, const struct document *document, struct error *err)
{
    struct counting *counting = context;
    uint32_t source = counting->mix->source_of[document->file];
    uint64_t size = (uint64_t)source << MIX_SIZE_BITS | document->size;

    counting->counts[source].documents++;
    counting->counts[source].bytes += (int64_t)document->size;
    return counting->sizes ? lines_put(counting->sizes, &size, sizeof(size), err) : 0;
}

static int count_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    const struct mix *mix = context;
    struct counting counting = {.mix = mix};
    struct tally tally = {0};
    int64_t size;
    int rc = 0;

    counting.counts = xcalloc(mix->count + 1, sizeof(*counting.counts));
    if (mix->config->weights || mix->config->epochs) {
        counting.sizes = lines_create(job, "sizes", 0, err);
        rc = counting.sizes ? 0 : -1;
    }
    if (rc == 0)
        rc = documents_each(job, job->number, &tally, count_document, &counting, err);
    if (rc < 0)
        lines_abandon(counting.sizes);
    else if (counting.sizes)
        rc = lines_finish(counting.sizes, &size, err);
    tally_put(&tally, result);
    bytes_put(result, counting.counts, mix->count * sizeof(*counting.counts));
    free(counting.counts);
    return rc;
}

static int add_counts(struct mix *mix, struct error *err)
{
    size_t chunks = mix->engine->plan.chunk_count, sources = mix->count;

    mix->before = xcalloc(chunks * sources + 1, sizeof(*mix->before));
    for (size_t i = 0; i < chunks; i++) {
        struct bytes bytes;
        struct tally tally;
        const struct source_counts *counts;

        if (jobs_result(mix->engine, "count", i, &bytes, err) < 0)
            return -1;
        tally_take(&tally, &bytes);
        tally_add(&mix->tally, &tally);
        counts = bytes_take(&bytes, sources * sizeof(*counts));
        for (size_t k = 0; counts && k < sources; k++) {
            struct source_counts own;

            memcpy(&own, &counts[k], sizeof(own));
            mix->before[i * sources + k] = mix->sources[k].all.documents;
            mix->sources[k].all.documents += own.documents;
            mix->sources[k].all.bytes += own.bytes;
        }
        bytes_clear(&bytes);
    }
    return 0;
}

/* Compute the share of each source. */
static int set_wanted(struct mix *mix, struct error *err)
{
    const struct mix_config *config = mix->config;
    double weights = 0, size = (double)config->size;

    for (size_t i = 0; i < mix->count; i++) {
        weights += config->weights ? config->weights[i] : 0;
        size += config->size == 0 ? mix_amount(mix, &mix->sources[i].all) : 0;
    }
    for (size_t i = 0; i < mix->count; i++) {
        struct source *source = &mix->sources[i];
        double all = mix_amount(mix, &source->all);

        source->wanted = config->epochs    ? config->epochs[i] * all
                         : config->weights ? config->weights[i] / weights * size
                                           : all;
        if ((config->epochs ? config->epochs[i] : source->wanted) > 0 && all == 0)
            return error_set_code(err, ERROR_USAGE, "%s has no %s; drop it", config->base.inputs[i],
                                  source->all.documents > 0 ? "text" : "documents");
        if (all > 0 && source->wanted / all * (double)source->all.documents > 1e15)
            return error_set_code(err, ERROR_USAGE,
                                  "%s would be repeated %.0f times; lower its weight",
                                  config->base.inputs[i], source->wanted / all);
        source->copies = all > 0 ? (int64_t)(source->wanted / all) : 0;
    }
    return 0;
}

static int read_choices(struct mix *mix, struct error *err)
{
    for (size_t i = 0; i < mix->count; i++) {
        struct bytes bytes;
        const void *taken;

        if (jobs_result(mix->engine, "choose", i, &bytes, err) < 0)
            return -1;
        mix->sources[i].limit = bytes_take_u64(&bytes);
        taken = bytes_take(&bytes, sizeof(mix->sources[i].taken));
        if (taken)
            memcpy(&mix->sources[i].taken, taken, sizeof(mix->sources[i].taken));
        bytes_clear(&bytes);
    }
    return 0;
}

/* Choose buckets of about 64 MB of output. */
static void set_buckets(struct mix *mix)
{
    double bytes = 0;

    for (size_t i = 0; i < mix->count; i++)
        bytes += (double)mix->sources[i].taken.bytes;
    bytes /= 64 << 20;
    mix->buckets = bytes < 16 ? 16 : bytes > SECTIONS_MOST ? SECTIONS_MOST : (size_t)bytes;
}

/* --- Scatter ---------------------------------------------------------------------------------- */

struct scattering {
    const struct mix *mix;
    struct scatter *scatter;
    int64_t *next; /* per source: number of its next document */
};

static int scatter_document(void *context, const struct document *document, struct error *err)
{
    struct scattering *scattering = context;
    const struct mix *mix = scattering->mix;
    uint32_t source = mix->source_of[document->file];
    int64_t number = scattering->next[source]++;
    int64_t copies =
        mix->sources[source].copies + (mix_key(mix, source, number) < mix->sources[source].limit);

    for (int64_t copy = 0; copy < copies; copy++) {
        struct scatter_entry entry = {
            .key = rng_bits(mix->config->seed, RNG_CURATE + 2 + source, (uint32_t)copy,
                            (uint64_t)number),
            .number = (uint64_t)number,
            .source = source,
            .copy = (uint32_t)copy,
            .size = document->line_size,
        };

        if (scatter_add(scattering->scatter, &entry, document->line, err) < 0)
            return -1;
    }
    return 0;
}

static int scatter_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    struct scattering scattering = {.mix = context};
    size_t sources = scattering.mix->count;
    struct tally tally = {0};
    int rc = 0;

    scattering.next = xcalloc(sources + 1, sizeof(*scattering.next));
    memcpy(scattering.next, scattering.mix->before + job->number * sources,
           sources * sizeof(*scattering.next));
    scattering.scatter = scatter_create(job, scattering.mix->buckets, err);
    if (!scattering.scatter)
        rc = -1;
    if (rc == 0)
        rc = documents_each(job, job->number, &tally, scatter_document, &scattering, err);
    if (rc == 0)
        rc = scatter_finish(scattering.scatter, err);
    else
        scatter_abandon(scattering.scatter);
    free(scattering.next);
    bytes_put_u64(result, 1);
    return rc;
}

/* --- Write ------------------------------------------------------------------------------------ */

static int by_key(const void *a, const void *b)
{
    struct scatter_entry left, right;

    memcpy(&left, *(const unsigned char *const *)a, sizeof(left));
    memcpy(&right, *(const unsigned char *const *)b, sizeof(right));
    if (left.key != right.key)
        return left.key < right.key ? -1 : 1;
    if (left.source != right.source)
        return left.source < right.source ? -1 : 1;
    if (left.number != right.number)
        return left.number < right.number ? -1 : 1;
    return left.copy < right.copy ? -1 : left.copy > right.copy;
}

/* Find the starts of a bucket's lines. The caller frees the list. Returns NULL if the data are
 * damaged. */
static unsigned char **index_lines(const struct bytes *bytes, size_t *count)
{
    LIST(unsigned char *) lines = {0};
    size_t at = 0;

    list_reserve(&lines, 1); /* not NULL if empty */
    while (bytes->size - at >= sizeof(struct scatter_entry)) {
        struct scatter_entry entry;

        memcpy(&entry, bytes->data + at, sizeof(entry));
        if (entry.size > bytes->size - at - sizeof(entry))
            break;
        *list_add(&lines) = bytes->data + at;
        at += sizeof(entry) + entry.size;
    }
    *count = lines.count;
    if (at < bytes->size)
        list_free(&lines);
    return lines.items;
}

static int write_lines(struct lines *out, unsigned char *const *items, size_t count,
                       struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct scatter_entry entry;

        memcpy(&entry, items[i], sizeof(entry));
        if (lines_put(out, items[i] + sizeof(entry), entry.size, err) < 0 ||
            lines_put(out, "\n", 1, err) < 0)
            return -1;
    }
    return 0;
}

static int write_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    const struct mix *mix = context;
    struct bytes bytes = {0};
    struct lines *out = NULL;
    unsigned char **items = NULL;
    size_t count = 0;
    int64_t size = 0;
    int rc = 0, packed = lines_codec(mix->config->base.output, err);

    for (size_t i = 0; rc == 0 && i < mix->engine->plan.chunk_count; i++) {
        rc = sections_read(mix->engine, "scatter", "lines", i, job->number, &bytes, err);
        job_touch(job);
    }
    if (rc == 0) {
        items = index_lines(&bytes, &count);
        if (!items) {
            error_set(err,
                      "bucket %zu of the work directory is damaged; remove the directory and run "
                      "again",
                      job->number);
            rc = error_append(err, "; raise the memory limit of the job (sbatch --mem)");
        }
    }
    if (rc == 0) {
        qsort(items, count, sizeof(*items), by_key);
        out = packed >= 0 ? lines_create(job, "mixed", packed, err) : NULL;
        rc = out ? write_lines(out, items, count, err) : -1;
    }
    if (rc == 0)
        rc = lines_finish(out, &size, err);
    else
        lines_abandon(out);
    free(items);
    bytes_clear(&bytes);
    bytes_put_u64(result, (uint64_t)size);
    return rc;
}

static int join_buckets(struct mix *mix, struct error *err)
{
    int64_t *sizes = xcalloc(mix->buckets + 1, sizeof(*sizes));
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < mix->buckets; i++) {
        struct bytes bytes;

        rc = jobs_result(mix->engine, "write", i, &bytes, err);
        if (rc == 0)
            sizes[i] = (int64_t)bytes_take_u64(&bytes);
        bytes_clear(&bytes);
    }
    if (rc == 0)
        rc = parts_join(mix->engine, "write", "mixed", mix->buckets, sizes, "mixed", err);
    free(sizes);
    return rc;
}

/* --- The whole -------------------------------------------------------------------------------- */

static int finish(struct jobs *engine, void *context, struct error *err)
{
    const struct mix *mix = context;
    double bytes = 0, seconds = clock_now() - engine->begin + 1e-9;
    char amount[AMOUNT_SIZE];
    int64_t documents = 0;

    if (parts_publish(engine, "mixed", engine->config->output, err) < 0)
        return -1;
    documents_warn(engine, &mix->tally);
    printf("Done: %s\n", engine->config->output);
    tally_print(&mix->tally);
    for (size_t i = 0; i < mix->count; i++) {
        documents += mix->sources[i].taken.documents;
        bytes += (double)mix->sources[i].taken.bytes;
    }
    printf("  sources:         %12s %12s %8s %8s\n", "documents", "taken", "epochs", "share");
    for (size_t i = 0; i < mix->count; i++) {
        const struct source *source = &mix->sources[i];
        double all = (double)source->all.documents;

        printf("                   %12" PRId64 " %12" PRId64 " %8.3f %6.2f %%  %s\n",
               source->all.documents, source->taken.documents,
               all > 0 ? (double)source->taken.documents / all : 0,
               bytes > 0 ? 100 * (double)source->taken.bytes / bytes : 0,
               engine->config->inputs[i]);
    }
    printf("  documents:       %" PRId64 " (%s of text)\n", documents, amount_words(bytes, amount));
    printf("  time:            %.1f s, %.1f MB/s of text\n", seconds,
           (double)mix->tally.text_bytes / 1e6 / seconds);
    fflush(stdout);
    return 0;
}

static int body(struct jobs *engine, void *context, struct error *err)
{
    struct mix mix = {.config = context, .engine = engine, .count = engine->config->input_count};
    struct phase count = {.name = "count",
                          .count = engine->plan.chunk_count,
                          .chunks = true,
                          .context = &mix,
                          .job = count_job};
    struct phase choose = {
        .name = "choose", .count = mix.count, .context = &mix, .job = mix_choose};
    struct phase scatter = {.name = "scatter",
                            .count = engine->plan.chunk_count,
                            .chunks = true,
                            .context = &mix,
                            .job = scatter_job};
    struct phase write = {.name = "write", .context = &mix, .job = write_job};
    int rc;

    mix.sources = xcalloc(mix.count + 1, sizeof(*mix.sources));
    rc = find_sources(&mix, err);
    if (rc == 0)
        rc = jobs_phase(engine, &count, err);
    if (rc == 0 && (add_counts(&mix, err) < 0 || documents_check(engine, &mix.tally, err) < 0 ||
                    set_wanted(&mix, err) < 0))
        rc = -1;
    if (rc == 0)
        rc = jobs_phase(engine, &choose, err);
    if (rc == 0)
        rc = read_choices(&mix, err);
    if (rc == 0) {
        set_buckets(&mix);
        rc = jobs_phase(engine, &scatter, err);
    }
    if (rc == 0) {
        write.count = mix.buckets;
        rc = jobs_phase(engine, &write, err);
    }
    if (rc == 0)
        rc = join_buckets(&mix, err);
    if (rc == 0)
        rc = jobs_finish(engine, finish, &mix, err);
    free(mix.sources);
    free(mix.source_of);
    free(mix.before);
    return rc;
}

int mix_run(struct mix_config *config, struct error *err)
{
    size_t sources = config->base.input_count;
    struct bytes identity = {0};
    int rc;

    config->base.reads_twice = 1;
    config->base.most_chunks = SECTIONS_MOST;
    bytes_put_u64(&identity, config->seed);
    bytes_put_u64(&identity, (uint64_t)config->size);
    bytes_put_u64(&identity, config->unit);
    for (size_t i = 0; i < sources; i++)
        bytes_put_text(&identity, config->base.inputs[i]);
    bytes_put_u64(&identity, config->weights != NULL);
    if (config->weights)
        bytes_put(&identity, config->weights, sources * sizeof(double));
    if (config->epochs)
        bytes_put(&identity, config->epochs, sources * sizeof(double));
    rc = jobs_run(&config->base, &identity, body, config, err);
    bytes_clear(&identity);
    return rc;
}
