/* SPDX-License-Identifier: Apache-2.0 */
/* Starts become runs: what is lost, where the time went, and which files belong together. */
#include "run/report/run.h"
#include "tap.h"

#include <math.h>

/* Steps 'from' to 'to', each of one second; the clock shows 'time' before the first. */
static struct attempt *add(struct attempts *list, const char *file, int64_t from, int64_t to,
                           double time)
{
    struct attempt *a = attempts_add(list, file);

    for (int64_t i = from; i <= to; i++) {
        struct step s = step_unknown(i);

        s.ms = 1000;
        s.loss = 10 - (float)i / 100;
        s.batch = 4;
        s.time = time + (double)(i - from + 1);
        attempt_step(a, &s);
    }
    return a;
}

static void test_restarts(void)
{
    struct attempts list = {0};
    struct runs runs = {0};
    struct notes notes = {0};
    struct run *run;
    struct attempt *a = add(&list, "log", 1, 15, 1000), *b;
    struct event save = {EVENT_SAVE, 10, 0.5, 0.25, NAN, NULL};

    a->time = 990;
    attempt_event(a, &save);
    b = add(&list, "log", 11, 20, 1030);
    b->time = 1025;
    b->resumed = 10;
    b->seq_length = 100;
    b->total = 20;
    diag("a restart");
    runs_arrange(&runs, &list, "run", NAN, &notes);
    run = runs.items;
    is_int((long long)runs.count, 1, "  is one run");
    is_int(run->steps, 20, "  with 20 steps");
    is_int(run->lost, 5, "  and 5 lost");
    ok(!a->steps.items[9].lost && a->steps.items[10].lost && !b->steps.items[0].lost,
       "  those of the first start");
    ok(fabs(run->seconds[SPENT_START] - 15) < 1e-6, "  starting took 15 s");
    ok(fabs(run->seconds[SPENT_DOWN] - 10) < 1e-6, "  it was down for 10 s");
    ok(fabs(run->seconds[SPENT_LOST] - 5) < 1e-6, "  5 s are lost");
    ok(fabs(run->seconds[SPENT_SAVE] - 0.5) < 1e-6, "  a save took half a second");
    ok(fabs(run->seconds[SPENT_TRAINING] - 19.5) < 1e-6, "  the rest is training");
    ok(fabs(run->span - 50) < 1e-6, "  50 s in all");
    ok(run->tokens_per_second == 400, "  400 tokens/s");
    is(run_status(run), "finished", "  finished");
    runs_clear(&runs);
    attempts_clear(&list);
}

/* The log has fewer digits and no times; it has two starts, the metrics file only one sequence. */
static void test_match(void)
{
    struct attempts list = {0};
    struct runs runs = {0};
    struct notes notes = {0};
    struct attempt *one = add(&list, "log", 1, 10, NAN), *two = add(&list, "log", 11, 22, NAN);
    struct attempt *metric = add(&list, "metrics", 1, 20, 500);

    metric->from_metrics = 1;
    one->steps.items[0].ms = 1000.04F;
    attempt_text(&metric->command, "megatron train");
    diag("a log and its metrics");
    runs_arrange(&runs, &list, "run", NAN, &notes);
    is_int((long long)list.count, 2, "  are two starts");
    is_int(runs.items[0].steps, 22, "  with 22 steps");
    is_int(runs.items[0].lost, 0, "  none of them twice");
    ok(one->steps.items[0].time == 501 && two->steps.items[0].time == 511,
       "  which have the metrics' times");
    is(one->command, "megatron train", "  and command");
    runs_clear(&runs);
    attempts_clear(&list);
}

static void test_two_runs(void)
{
    struct attempts list = {0};
    struct runs runs = {0};
    struct notes notes = {0};

    attempt_argument(add(&list, "a.log", 1, 10, NAN), "hidden_size", "64");
    attempt_argument(add(&list, "b.log", 1, 10, NAN), "hidden_size", "128");
    attempt_text(&add(&list, "c.log", 11, 12, NAN)->command, "x --hidden-size 128 --lr 1");
    diag("two runs in one directory");
    runs_arrange(&runs, &list, "both", NAN, &notes);
    is_int((long long)runs.count, 2, "  are two");
    is_int((long long)runs.items[1].count, 2, "  of which one was restarted");
    is(runs.items[1].name, "both (2)", "  with a number");
    is(notes.count == 1 ? notes.items[0] : "",
       "both contains 2 runs, which differ in --hidden-size; all are shown; name the files of one "
       "run to see only that",
       "  which is noted");
    runs_clear(&runs);
    attempts_clear(&list);
    notes_clear(&notes);
}

int main(void)
{
    test_restarts();
    test_match();
    test_two_runs();
    return done_testing();
}
