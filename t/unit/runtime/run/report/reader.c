/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines of several programs, and lines that are cut off. */
#include "run/report/reader.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>

#define REST                                                                                  \
    " learning rate: 1.500000E-06 | global batch size:  1024 | lm loss: 1.192634E+01 | loss " \
    "scale: 2.0 | grad norm: 5.960 | number of skipped iterations:   3 | number of nan "      \
    "iterations:   1 |"

static const struct {
    const char *what, *line;
    int64_t iteration; /* -1: not a step */
    double loss, ms, time;
    int torn;
} lines[] = {
    {"Megatron-LM",
     " iteration        7/   24000 | consumed samples:          1024 | elapsed time per iteration "
     "(ms): 271.5 |" REST,
     7, 11.92634, 271.5, NAN, 0},
    {"newer Megatron-LM, from a launcher",
     "[default0]: [2025-05-27 15:23:07] iteration        1/   24000 | consumed samples: 1024 | "
     "elapsed time per iteration (ms): 271607.0 | throughput per GPU (TFLOP/s/GPU): 40.4 |" REST,
     1, 11.92634, 271607, 1748359387, 0},
    {"Megatron-DeepSpeed",
     " iteration        2/   95367 | consumed samples:         4096 | consumed tokens:      "
     "8388608 | "
     "elapsed time per iteration (s): 844.81 |" REST " samples per second: 2.424 | TFLOPs: 98.87 |",
     2, 11.92634, 844810, NAN, 0},
    {"two times per iteration",
     "3:  iteration 5/ 10 | elapsed time per iteration (ms): 50.5/61.0 |" REST, 5, 11.92634, 50.5,
     NAN, 0},
    {"a skipped step",
     " iteration 9/ 10 | elapsed time per iteration (ms): 50.5 | loss scale: 2.0 | number of "
     "skipped iterations:   1 | number of nan iterations:   0 |",
     9, NAN, 50.5, NAN, 0},
    {"a loss that is NaN",
     " iteration 9/ 10 | elapsed time per iteration (ms): 50.5 | lm loss: NAN |", 9, NAN, 50.5, NAN,
     0},
    {"a line that is cut in a number",
     " iteration 9/ 10 | elapsed time per iteration (ms): 50.5 | lm loss: 1.1", 9, NAN, 50.5, NAN,
     1},
    {"a line that is cut in a name", " iteration 9/ 10 | elapsed ti", 9, NAN, NAN, NAN, 1},
    {"something else", " iteration of the list 1/2", -1, 0, 0, 0, 0},
    {"a number only", "iteration 7", -1, 0, 0, 0, 0},
};

static int is_close(double a, double b)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-6 * fabs(b);
}

static void test_lines(void)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct attempts attempts = {0};
        struct extras extras = {0};
        struct notes notes = {0};
        struct reader r = {
            .attempts = &attempts, .extras = &extras, .notes = &notes, .name = "log"};
        struct step *s;

        reader_log_line(&r, lines[i].line, true);
        s = attempts.count > 0 && attempts.items[0]->steps.count > 0
                ? attempts.items[0]->steps.items
                : NULL;
        is_int(s ? s->iteration : -1, lines[i].iteration, lines[i].what);
        if (s)
            ok(is_close((double)s->loss, lines[i].loss) && is_close((double)s->ms, lines[i].ms) &&
                   is_close(s->time, lines[i].time),
               "  loss %g, %g ms, time %g", (double)s->loss, (double)s->ms, s->time);
        is_int(r.torn, lines[i].torn, "  cut off or not");
        attempts_clear(&attempts);
    }
}

static void take(struct reader *r, const char *line)
{
    if (line[0] == '{')
        reader_json_line(r, line, strlen(line));
    else
        reader_log_line(r, line, true);
}

static void test_starts(void)
{
    static const char *const log[] = {
        "megatron 0.1.0 started at 2026-11-16 23:49:01 UTC on n1, job 12; built with: mpi",
        "command line: megatron train --save 'a b'",
        "------------------------ arguments ------------------------",
        "  seq_length ..................................... 2048",
        "  save ........................................... None",
        "-------------------- end of arguments ---------------------",
        "  successfully loaded checkpoint from ck at iteration 40 (0.1 s, of which reading took 0 "
        "s)",
        "time to first step: 2.50 s",
        " iteration 41/ 50 | lm loss: 3.0 |",
        " validation loss at iteration 41 | lm loss value: 2.500000E+00 | lm loss PPL: 1.0E+01 | ",
        "  successfully saved checkpoint from iteration      41 to ck (2.000 s, of which the copy "
        "took 0.250 s)",
        "srun: error: n1: task 0: Killed",
        "megatron supervise: the run exited with code 137; its last checkpoint is iteration 41",
        "------------------------ arguments ------------------------",
        "  save ........................................... b",
        "  and 1 others as at the first start",
        "------------------------ arguments ------------------------",
        "  and 2 others as at the first start",
    };
    struct attempts attempts = {0};
    struct extras extras = {0};
    struct notes notes = {0};
    struct reader r = {.attempts = &attempts, .extras = &extras, .notes = &notes, .name = "log"};
    struct attempt *a;

    for (size_t i = 0; i < sizeof(log) / sizeof(log[0]); i++)
        take(&r, log[i]);
    if (is_int((long long)attempts.count, 3, "three starts")) {
        a = attempts.items[0];
        is(a->command, "megatron train --save 'a b'", "command line");
        is(a->program, "megatron 0.1.0; built with: mpi", "version");
        is(a->host, "n1", "host");
        is(a->job, "12", "job");
        ok(a->time == 1794872941, "time of the start");
        is_int(a->seq_length, 2048, "sequence length");
        ok(!attempt_value(a, "save"), "an argument that is None");
        is_int(a->resumed, 40, "the checkpoint");
        ok(a->first_step == 2.5, "time to the first step");
        is_int((long long)a->validations.count, 1, "a validation");
        ok(a->events.count == 3 && a->events.items[0].kind == EVENT_SAVE &&
               a->events.items[0].stalled == 0.25 && a->events.items[1].kind == EVENT_FAULT &&
               a->events.items[2].kind == EVENT_FAULT,
           "a save and two faults");
        a = attempts.items[1];
        is_int(a->seq_length, 2048, "an argument of the first start");
        is_int((long long)a->arguments.count, 2, "  with those that differ");
        is(attempt_value(a, "save"), "b", "  which come first");
        a = attempts.items[2];
        is_int((long long)a->arguments.count, 2, "all arguments of the first start");
        ok(!attempt_value(a, "save"), "  not those of the second");
    }
    attempts_clear(&attempts);
}

static void test_records(void)
{
    struct attempts attempts = {0};
    struct extras extras = {0};
    struct notes notes = {0};
    struct reader r = {.attempts = &attempts, .extras = &extras, .notes = &notes, .name = "m"};

    take(&r, "{\"record\":\"start\",\"version\":1,\"command\":[\"megatron\",\"a "
             "b\",\"it's\"],\"time\":5}");
    take(&r, "{\"iteration\":1,\"lm_loss\":3.5,\"milliseconds\":10,\"time\":7}");
    take(
        &r,
        "{\"record\":\"validation\",\"version\":1,\"iteration\":1,\"lm_loss\":3,\"set\":\"test\"}");
    take(&r, "{\"iteration\":2,\"lm_loss\":3.");
    take(&r, "{\"record\":\"start\",\"version\":2}");
    take(&r, "{\"record\":\"ranks\",\"version\":1,\"hosts\":[\"a\",\"b\"],\"ms\":[1,2]}");
    take(&r, "{\"record\":\"ranks\",\"version\":1,\"hosts\":[\"a\"],\"ms\":[3,4]}");
    take(&r, "{\"record\":\"ranks\",\"version\":1,\"hosts\":7}");
    take(&r, "{\"record\":\"preflight\",\"version\":1,\"check\":\"hbm\",\"value\":1.5}");
    take(&r, "{\"record\":\"unheard of\",\"version\":1}");
    take(&r, "{\"record\":7}");
    is_int((long long)attempts.count, 1, "a start");
    is(attempts.items[0]->command, "megatron 'a b' 'it'\\''s'", "  with its command, quoted");
    is_int((long long)attempts.items[0]->steps.count, 1, "  with a step");
    ok(attempts.items[0]->validations.count == 1 && attempts.items[0]->validations.items[0].test,
       "  and a test loss");
    is_int(r.torn, 1, "a line that is cut off");
    is_int(r.foreign, 1, "a record of another version");
    ok(extras.ranks.count == 2 && extras.ranks.items[0].total == 4 &&
           extras.ranks.items[1].count == 1,
       "step times of ranks");
    ok(extras.checks.count == 1 && strcmp(extras.checks.items[0].value, "1.5") == 0 &&
           strcmp(extras.checks.items[0].host, "") == 0,
       "a check without a host");
    attempts_clear(&attempts);
    extras_clear(&extras);
}

int main(void)
{
    test_lines();
    test_starts();
    test_records();
    return done_testing();
}
