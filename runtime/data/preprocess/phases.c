/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "run.h"
#include "lib/clock.h"

bool run_is_over(struct run *run)
{
    bool over;

    pthread_mutex_lock(&run->monitor_lock);
    over = work_is_over(&run->work);
    pthread_mutex_unlock(&run->monitor_lock);
    return over;
}

void run_wait(const struct run *run, double *pause)
{
    double longest = run->work.world->size > 100 ? 2 : 0.5;

    clock_sleep(*pause);
    *pause = *pause * 1.5 < longest ? *pause * 1.5 : longest;
}

/* Are all chunks done that the output needs? */
static bool chunks_complete(struct run *run, int64_t left)
{
    return left == 0 || (run->config->max_documents > 0 &&
                         board_prefix(&run->parts, run->config->max_documents) > 0);
}

/* Encode until all chunks are done, or until a faster rank has made the layout at 'layout' and
 * perhaps copied and removed some parts. */
static int do_chunks(struct run *run, const char *layout, struct error *err)
{
    double pause = 0.02;

    for (;;) {
        size_t number;
        int64_t left;
        int rc;

        /* If a chunk is broken, other ranks finish those before it; a single rank must do so
         * itself, and may have to redo a torn part. */
        if ((run->encode.broken == SIZE_MAX || run->work.world->size == 1) &&
            encode_run(&run->encode, NULL, err) < 0)
            return -1;
        left = board_scan(&run->work, &run->parts, err);
        if (left < 0)
            return -1;
        if (chunks_complete(run, left) || disk_exists(layout) || run_is_over(run))
            return 0;
        if (board_done_up_to(&run->parts, run->encode.broken)) {
            *err = run->encode.broken_err;
            return -1;
        }
        rc = board_take_over(&run->work, &run->parts, &number, err);
        if (rc < 0 || (rc > 0 && encode_run(&run->encode, &number, err) < 0))
            return -1;
        if (rc == 0)
            run_wait(run, &pause);
    }
}

static int strict_check(const struct run *run, struct error *err)
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

static void init_assembly(struct run *run)
{
    run->assembly = (struct assembly){
        .config = run->config, .work = &run->work, .parts = &run->parts, .layout = &run->layout};
    tokenizer_identify(run->tokenizer, &run->assembly.made_by);
    run->assembling = true;
    assembly_init(&run->assembly);
}

void run_drop_layout(struct run *run)
{
    if (run->assembling)
        assembly_clear(&run->assembly);
    output_layout_clear(&run->layout);
    run->assembling = false;
}

/* Returns 0, 1 if a chunk must be encoded again, or -1. */
static int make_layout(struct run *run, const char *path, struct error *err)
{
    int rc = output_layout_make(&run->layout, run->config, &run->plan, run->tokenizer, &run->work,
                                &run->parts, &run->single, err);

    if (rc == 0)
        rc = strict_check(run, err);
    if (rc == 0)
        init_assembly(run);
    /* If another rank's layout exists, do not allocate the output a second time. */
    if (rc == 0 && !disk_exists(path))
        rc = assembly_create(&run->assembly, &run->single, err);
    if (rc == 0)
        rc = output_layout_write(&run->layout, path, err);
    /* The file that exists now counts: another rank may have written it. */
    run_drop_layout(run);
    return rc;
}

/* Claim or take over the only job of a phase. Returns 1, 0 or -1. */
static int take_single(struct run *run, struct error *err)
{
    size_t number;
    int rc = board_claim(&run->work, &run->single, &number, err);

    return rc == 0 ? board_take_over(&run->work, &run->single, &number, err) : rc;
}

/* Get the layout, which the first rank to arrive makes. Returns 0, 1 to go back to the chunks, or
 * -1. */
static int do_layout(struct run *run, const char *path, struct error *err)
{
    double pause = 0.01;

    for (;;) {
        int rc = output_layout_read(&run->layout, path, err);

        if (rc < 0)
            return -1;
        /* It may be the layout of an earlier run without --strict. */
        if (rc == 0 && strict_check(run, err) < 0)
            return -1;
        if (rc == 0) {
            init_assembly(run);
            /* All chunks are done: scan the names of all parts. */
            return board_scan(&run->work, &run->parts, err) < 0 ? -1 : 0;
        }
        if (run_is_over(run))
            return 0;
        rc = take_single(run, err);
        if (rc < 0)
            return -1;
        if (rc > 0) {
            report_pause(&run->report);
            rc = make_layout(run, path, err);
            if (rc < 0)
                return -1;
            if (rc == 0)
                continue;
            run->single.jobs[0].mine = 0; /* a torn part: go back to the chunks */
            run->single.jobs[0].generation = -1;
            return 1;
        }
        /* The rank that makes the layout may have reset chunks. */
        if (board_scan(&run->work, &run->parts, err) < 0)
            return -1;
        run_wait(run, &pause);
    }
}

/* The last phase: one rank renames the files, and the others wait for it. */
static int do_finish(struct run *run, struct error *err)
{
    double pause = 0.01;

    for (;;) {
        int rc;

        if (run_is_over(run))
            return 0;
        /* The end message was removed before this rank saw it. */
        if (disk_is_gone(run->work.base))
            return work_set_gone(&run->work, err);
        rc = take_single(run, err);
        if (rc < 0)
            return -1;
        if (rc > 0) {
            if (assembly_finish(&run->assembly, err) < 0 || work_mark_finished(&run->work, err) < 0)
                return -1;
            report_end(&run->report, &run->layout);
            run_stop_monitor(run); /* it writes to the directory that is being removed */
            return work_finish(&run->work, err);
        }
        run_wait(run, &pause);
    }
}

static void reset_single(struct run *run, enum job_kind kind)
{
    board_clear(&run->single);
    board_init(&run->single, kind, 1, 0);
}

int run_phases(struct run *run, struct error *err)
{
    char path[DISK_PATH];
    int rc;

    if (disk_path(path, err, "%.4000s/layout", run->work.base) < 0)
        return -1;
    do {
        /* If there is a layout, all chunks are done, and some parts may have been removed. */
        int complete = disk_exists(path);

        if (board_scan(&run->work, &run->parts, err) < 0)
            return -1;
        if (!complete && do_chunks(run, path, err) < 0)
            return -1;
        report_share(&run->report);
        if (run_is_over(run))
            return 0;
        reset_single(run, JOB_LAYOUT);
        rc = do_layout(run, path, err);
    } while (rc > 0);
    if (rc < 0 || run_is_over(run))
        return rc;
    board_init(&run->copies, JOB_MARKED, run->layout.copies,
               run->layout.copies * (size_t)run->work.world->rank / (size_t)run->work.world->size);
    if (board_scan(&run->work, &run->copies, err) < 0 || run_copies(run, err) < 0)
        return -1;
    if (run_is_over(run))
        return 0;
    reset_single(run, JOB_FINISH);
    return do_finish(run, err);
}
