/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "preprocess.h"
#include "lib/clock.h"
#include "data/dataset/data_identity.h"
#include "base/core/storage.h"
#include "run.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- Begin ------------------------------------------------------------------------------------ */

/* Find the first output file that exists, or that is missing. Returns 1 and its path, 0 or -1. */
static int find_output(const struct preprocess_config *config, bool exists, char *path,
                       struct error *err)
{
    for (size_t k = 0; k < config->key_count; k++)
        for (size_t s = 0; s < (size_t)config->shards; s++)
            for (int i = 0; i < 2; i++) {
                if (output_path(config, k, s, i ? "idx" : "bin", path, err) < 0)
                    return -1;
                if (!disk_exists(path) == !exists)
                    return 1;
            }
    return 0;
}

int preprocess_is_complete(const struct preprocess_config *config, struct error *err)
{
    char path[DISK_PATH];
    int missing = find_output(config, false, path, err);

    return missing < 0 ? -1 : !missing;
}

/* Check that an identity file that will be overwritten is not a user's own file. */
static int check_identities(const struct preprocess_config *config, struct error *err)
{
    char path[DISK_PATH];

    for (size_t k = 0; k < config->key_count && !config->overwrite; k++)
        for (size_t s = 0; s < (size_t)config->shards; s++) {
            if (output_path(config, k, s, DATA_IDENTITY_ENDING, path, err) < 0)
                return -1;
            if (!data_identity_may_replace(path)) {
                error_set_code(err, ERROR_USAGE, "%s exists, and no run has written it", path);
                return error_append(err, "; use --overwrite to replace it");
            }
        }
    return 0;
}

static int check_tokenizer(const struct run *run, struct error *err)
{
    if (!run->config->append_eod || tokenizer_eod(run->tokenizer) >= 0)
        return 0;
    error_set_code(err, ERROR_USAGE, "this tokenizer has no end-of-document token to append");
    return error_append(err, "; use --no-append-eod");
}

static int open_punkt(struct run *run, struct error *err)
{
    if (!run->config->punkt)
        return 0;
    errno = 0;
    run->punkt = punkt_open(run->config->punkt, err);
    if (run->punkt)
        return 0;
    return file_path_error(err);
}

/* All ranks. */
static int prepare(void *context, struct error *err)
{
    struct run *run = context;
    const struct preprocess_config *config = run->config;
    int made = 0;

    if (disk_check_directory(config->output_prefix, err) < 0 ||
        (config->dictionary && dictionary_make(config, &made, err) < 0))
        return -1;
    if (made)
        printf("Wrote the dictionary %s\n", config->dictionary);
    errno = 0;
    run->tokenizer = tokenizer_create(&config->tokenizer, err);
    if (!run->tokenizer)
        return file_path_error(err);
    return check_tokenizer(run, err) < 0 ? -1 : open_punkt(run, err);
}

/* Rank 0. */
static int make_plan(void *context, struct input_plan *plan, char *existing, struct error *err)
{
    const struct run *run = context;
    int found;

    if (plan_make(plan, run->config, run->tokenizer, err) < 0)
        return -1;
    found = find_output(run->config, true, existing, err);
    if (found == 0)
        existing[0] = '\0';
    return found < 0 ? -1 : check_identities(run->config, err);
}

/* --- Layout ----------------------------------------------------------------------------------- */

static int check_strict(const struct run *run, struct error *err)
{
    int64_t faults = 0, markup = 0;

    for (int i = 0; i < FAULT_COUNT; i++) {
        if (i < FAULT_BROKEN_END || i >= FAULT_LEFT_OUT_END)
            faults += run->layout.faults[i];
        if (i >= FAULT_LEFT_OUT_END)
            markup += run->layout.faults[i];
    }
    if (!run->config->strict || faults == 0)
        return 0;
    error_set_code(err, ERROR_USAGE, "%lld document%s invalid%s%s%s", (long long)faults,
                   faults == 1 ? " is" : "s are",
                   markup == 0   ? ""
                   : faults == 1 ? " or has unclosed markup"
                                 : " or have unclosed markup",
                   run->layout.first_fault[0] ? "; the first: " : "", run->layout.first_fault);
    return error_append(err, "; drop --strict to skip what is invalid");
}

static void drop_layout(struct run *run)
{
    output_layout_clear(&run->layout);
    run->assembly.layout = NULL;
}

/* Compute the layout and create the output files. If the job was taken over and both ranks finish,
 * the first result counts, and the files of the other are removed with the directory. */
static int layout_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    struct run *run = context;
    int rc;

    jobs_end_line(job->engine);
    rc = output_layout_make(&run->layout, &run->encode, job, err);
    if (rc == 0)
        rc = check_strict(run, err);
    run->assembly.layout = &run->layout;
    if (rc == 0)
        rc = assembly_create(&run->assembly, job, err);
    if (rc == 0)
        output_layout_put(&run->layout, result);
    drop_layout(run);
    return rc;
}

/* The layout may be that of an earlier launch without --strict. */
static int read_layout(struct run *run, struct jobs *engine, struct error *err)
{
    struct bytes bytes;
    int rc = jobs_result(engine, "layout", 0, &bytes, err);

    if (rc == 0 && output_layout_take(&run->layout, &bytes) < 0)
        rc = error_set(err, "the layout in %s is damaged; remove %s.work and start again",
                       engine->directory, run->config->output_prefix);
    bytes_clear(&bytes);
    if (rc == 0)
        run->assembly.layout = &run->layout;
    return rc < 0 ? -1 : check_strict(run, err);
}

/* --- Copies ----------------------------------------------------------------------------------- */

/* Copy the parts of a group of chunks. */
static int copy_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    struct run *run = context;
    const size_t *groups = &run->layout.groups[job->number];

    (void)result;
    return assembly_copy(&run->assembly, job, groups[0], groups[1], err);
}

static void remove_parts(void *context, struct job *job)
{
    const struct run *run = context;
    char path[DISK_PATH];

    for (size_t c = run->layout.groups[job->number]; c < run->layout.groups[job->number + 1]; c++)
        if (encode_part_path(&run->encode, c, path, NULL) == 0)
            unlink(path);
}

/* --- The run ---------------------------------------------------------------------------------- */

static int publish(struct jobs *engine, void *context, struct error *err)
{
    struct run *run = context;

    if (assembly_finish(&run->assembly, err) < 0)
        return -1;
    summary_print(run, engine);
    return 0;
}

static int body(struct jobs *engine, void *context, struct error *err)
{
    struct run *run = context;
    struct phase layout = {.name = "layout", .count = 1, .context = run, .job = layout_job};
    struct phase copy = {.name = "copy", .context = run, .job = copy_job, .after = remove_parts};
    size_t *large = NULL;
    int rc;

    run->chunks = (struct phase){.name = "encode",
                                 .count = engine->plan.chunk_count,
                                 .chunks = true,
                                 .context = &run->encode,
                                 .work = encode_chunks,
                                 .stop = encode_stop,
                                 .is_complete = encode_is_complete,
                                 .in_order = run->config->max_documents > 0};
    if (run->config->max_documents == 0)
        run->chunks.early_count =
            input_plan_large_chunks(&engine->plan, run->config->chunk_bytes, &large);
    run->chunks.early = large;
    run->encode.config = run->config;
    run->encode.plan = &engine->plan;
    run->encode.phase = &run->chunks;
    run->encode.tokenizer = run->tokenizer;
    run->encode.punkt = run->punkt;
    run->assembly.config = run->config;
    run->assembly.encode = &run->encode;
    tokenizer_identify(run->tokenizer, &run->assembly.made_by);
    run->encode.threads = (size_t)threads_count(engine->threads);
    rc = encode_open(&run->encode, err);
    if (rc == 0 && engine->world->rank == 0) {
        if (engine->plan.files.count > INPUT_PLAN_NAMED_FILES)
            printf("Opening %zu files\n", engine->plan.files.count);
        printf("Time to startup: %.6g\n", clock_now() - engine->begin);
        fflush(stdout);
    }
    if (rc == 0)
        rc = jobs_phase(engine, &run->chunks, err);
    if (rc == 0)
        rc = jobs_phase(engine, &layout, err);
    if (rc == 0)
        rc = read_layout(run, engine, err);
    copy.count = run->layout.copies;
    if (rc == 0)
        rc = jobs_phase(engine, &copy, err);
    if (rc == 0)
        rc = jobs_finish(engine, publish, run, err);
    free(large);
    return rc;
}

static bool is_complete(void *context)
{
    struct run *run = context;
    struct error ignored;

    return run->assembly.layout && assembly_finish(&run->assembly, &ignored) == 0;
}

int preprocess(const struct preprocess_config *config, struct error *err)
{
    struct run run = {.config = config};
    struct jobs_config jobs = {
        .command = "preprocess",
        .output = config->output_prefix,
        .json_progress = config->json_progress,
        .strict = config->strict,
        .overwrite = config->overwrite,
        .workers = config->threads,
        .lease = config->lease,
        .log_interval = config->log_interval,
        .prepare = prepare,
        .make_plan = make_plan,
        .is_complete = is_complete,
    };
    int rc = jobs_run(&jobs, NULL, body, &run, err);

    drop_layout(&run);
    encode_close(&run.encode);
    tokenizer_destroy(run.tokenizer);
    punkt_close(run.punkt);
    return rc;
}
