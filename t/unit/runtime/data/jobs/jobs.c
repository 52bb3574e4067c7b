/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of jobs with one rank: phases in their order, results, what a failed launch leaves and
 * the next one continues. Several ranks and kills: t/data/jobs.t, t/preprocess/resume.t. */
#include "config.h"
#include "data/jobs/jobs.h"
#include "data/jobs/disk.h"
#include "tap.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { JOBS = 5 };

static char directory[] = "/tmp/jobs-XXXXXX";

static char *path_of(const char *name)
{
    static char paths[2][DISK_PATH];
    static int turn;

    turn = !turn;
    snprintf(paths[turn], sizeof(paths[turn]), "%s/%s", directory, name);
    return paths[turn];
}

/* What a run has done. */
struct seen {
    _Atomic int squares, sums, removed;
    int published;
    bool fails; /* one job of the second phase fails */
    uint64_t sum;
};

static int square_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    struct seen *seen = context;

    (void)err;
    seen->squares++;
    job_progress(job, 2, 10, 0);
    bytes_put_u64(result, job->number * job->number);
    return 0;
}

static void remove_square(void *context, struct job *job)
{
    struct seen *seen = context;

    (void)job;
    seen->removed++;
}

static int sum_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    struct seen *seen = context;
    uint64_t sum = 0;

    seen->sums++;
    if (seen->fails)
        return error_set(err, "the job fails");
    for (size_t i = 0; i < JOBS; i++) {
        struct bytes square;

        if (jobs_result(job->engine, "squares", i, &square, err) < 0)
            return -1;
        sum += bytes_take_u64(&square);
        bytes_clear(&square);
    }
    bytes_put_u64(result, sum);
    return 0;
}

static int publish(struct jobs *engine, void *context, struct error *err)
{
    struct seen *seen = context;
    struct bytes sum;
    FILE *file;

    if (jobs_result(engine, "sum", 0, &sum, err) < 0)
        return -1;
    seen->sum = bytes_take_u64(&sum);
    bytes_clear(&sum);
    file = fopen(engine->config->output, "w");
    fclose(file);
    seen->published++;
    return 0;
}

static int body(struct jobs *engine, void *context, struct error *err)
{
    struct phase squares = {.name = "squares",
                            .count = JOBS,
                            .context = context,
                            .job = square_job,
                            .after = remove_square};
    struct phase sum = {.name = "sum", .count = 1, .context = context, .job = sum_job};
    int rc = jobs_phase(engine, &squares, err);

    if (rc == 0 && squares.before_documents > 0)
        is_int(squares.before_documents, 2 * JOBS, "documents of an earlier launch are counted");
    if (rc == 0)
        rc = jobs_phase(engine, &sum, err);
    return rc == 0 ? jobs_finish(engine, publish, context, err) : rc;
}

static int run(const char *options, struct seen *seen, bool overwrite, struct error *err)
{
    struct jobs_config config = {
        .command = "test", .output = path_of("out"), .workers = 2, .lease = 1};
    struct bytes identity = {0};
    int rc;

    config.overwrite = overwrite;
    config.outputs[0] = config.output;
    bytes_put_text(&identity, options);
    rc = jobs_run(&config, &identity, body, seen, err);
    bytes_clear(&identity);
    return rc;
}

int main(void)
{
    struct seen first = {.fails = true}, second = {.sum = 0}, third = {.fails = true},
                fourth = {.sum = 0};
    struct error err = {.text = ""};
    struct stat status;

    if (!mkdtemp(directory))
        return 1;
    is_int(run("a", &first, false, &err), -1, "a job fails");
    is(err.text, "the job fails", "  with its error");
    ok(first.squares == JOBS && first.removed == JOBS && first.sums == 1, "each job ran once");
    ok(stat(path_of("out.work"), &status) == 0, "what was done stays");

    is_int(run("a", &second, false, &err), 0, "the next launch completes the run");
    is_int(second.squares, 0, "  without repeating jobs that were done");
    is_int((long long)second.sum, 0 + 1 + 4 + 9 + 16, "  from their results");
    is_int(second.published, 1, "  and publishes once");
    ok(stat(path_of("out.work"), &status) < 0, "  and removes the work directory");

    ok(run("b", &third, false, &err) < 0 && err.code == ERROR_USAGE, "%s", err.text);
    is_int(run("b", &third, true, &err), -1, "a run with other options may replace the output");
    is_int(third.squares, JOBS, "  and begins with its first job");
    is_int(run("c", &fourth, true, &err), 0, "yet another run");
    ok(fourth.squares == JOBS && fourth.published == 1, "  does not use results of another one");
    unlink(path_of("out"));
    is_int(rmdir(directory), 0, "nothing is left");
    return done_testing();
}
