/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "lib/clock.h"
#include "commands.h"
#include "run/checkpoint/directory.h"
#include "base/core/log.h"
#include "base/core/option_rows.h"
#include "supervise.h"
#include "run/train/train.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* File next to the checkpoints: how many consecutive starts stopped at which iteration. */
#define STARTS ".starts"

/* Consecutive failed launches before they count as starts, and consecutive launches that exit with
 * 0 without a finished run before supervise gives up. */
enum { MAX_LAUNCHES = 20, MAX_EMPTY = 8 };

/* Maximum seconds between two starts without progress, and between two checks of a directory that
 * is unavailable. */
enum { LONGEST_PAUSE = 300, LONGEST_CHECK = 60 };

/* Nothing is started if less than this many seconds (or a tenth of the time limit, if less) of the
 * job remain. */
enum { MARGIN = 300 };

/* clang-format off */
#define AT(field) offsetof(struct supervise_options, field)
static const struct option options[] = {
    RANGE("starts", starts, 1, 1000000, "give up after this many consecutive restarts without a new checkpoint"),
    NUMBER("pause", pause, "SECONDS", 0, LONGEST_PAUSE, "time between starts; four times longer after each start without a new checkpoint"),
    TEXT("report", report, "FILE", "after each start, write a report of the run to this HTML file"),
    {0},
};
/* clang-format on */

/* Run a command and wait for it; returns its exit code as a shell reports it. If 'output' is not
 * negative, it becomes the command's standard output. */
static int run_command(const char *const *words, int output, struct supervise_signals *signals,
                       struct error *err)
{
    pid_t pid = fork(), waited;
    int status;

    if (pid < 0)
        return error_set_errno(err, errno, "cannot start %s", words[0]);
    if (pid == 0) {
        sigprocmask(SIG_SETMASK, &signals->before, NULL);
        if (output >= 0)
            dup2(output, STDOUT_FILENO);
        execvp(words[0], (char *const *)(uintptr_t)words);
        error_set_errno(err, errno, "cannot start %s", words[0]);
        error_append(err, "; check its name and PATH");
        fprintf(stderr, "megatron supervise: %s\n", err->text);
        _exit(127);
    }
    while ((waited = waitpid(pid, &status, WNOHANG)) != pid) {
        if (waited < 0 && errno != EINTR)
            return error_set_errno(err, errno, "cannot wait for %s", words[0]);
        supervise_signals_wait(signals, pid);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Seconds of a time in squeue's format, [[days-]hours:]minutes:seconds; -1 if it is not a number.
 */
static int64_t parse_squeue_time(const char *text)
{
    int64_t days = 0, parts[3] = {0}, count = 0;
    const char *dash = strchr(text, '-');

    if (text[0] < '0' || text[0] > '9')
        return -1;
    if (dash)
        days = strtoll(text, NULL, 10);
    for (text = dash ? dash + 1 : text; count < 3; text++) {
        parts[count++] = strtoll(text, (char **)(uintptr_t)&text, 10);
        if (*text != ':')
            break;
    }
    if (count == 2)
        return 60 * parts[0] + parts[1];
    return 86400 * days + 3600 * parts[0] + 60 * parts[1] + parts[2];
}

enum answer { FAILED = -1, CONTINUE, END, REQUEUE };

/* A run that is supervised. */
struct supervision {
    const struct supervise_options *given;
    const struct supervise_run *run;
    const char *const *words; /* its command line */
    size_t count;
    const char *save;
    const char *job; /* NULL: not in a job of Slurm, or it does not decide about the run */
    struct supervise_signals signals;
    int64_t newest; /* iteration of the newest checkpoint; -1: none */
    int launches;   /* consecutive ones that did not start the run */
    /* Consecutive starts that stopped at the same iteration. The count is also kept next to the
     * checkpoints, so that it survives a requeue. */
    struct {
        int64_t iteration, starts;
    } stalled;
};

/* May something be started in the job 'seconds' from now? A job that was cancelled or preempted
 * must not be requeued, only one that is still running. If little of its time remains, a start
 * would achieve nothing and Slurm would end the job for good. */
static enum answer ask_job(struct supervision *s, int64_t seconds)
{
    const char *words[] = {"squeue", "-h", "-j", s->job, "-o", "%T %L %l", NULL};
    char text[128] = "", state[32] = "", left_text[32] = "", limit_text[32] = "";
    struct error ignored;
    int64_t left, limit, margin;
    ssize_t got;
    int ends[2], code;

    if (!s->job)
        return CONTINUE;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return END;
    /* The line fits into the pipe's buffer, so waiting before reading cannot block. */
    code = run_command(words, ends[1], &s->signals, &ignored);
    close(ends[1]);
    got = read(ends[0], text, sizeof(text) - 1);
    close(ends[0]);
    if (code != 0)
        return CONTINUE;
    if (got <= 0 || sscanf(text, "%31s %31s %31s", state, left_text, limit_text) < 1 ||
        strcmp(state, "RUNNING") != 0)
        return END;
    left = parse_squeue_time(left_text);
    limit = parse_squeue_time(limit_text);
    margin = limit < 10 * MARGIN ? limit / 10 : MARGIN;
    return left >= 0 && limit >= 0 && left - seconds < margin ? REQUEUE : CONTINUE;
}

/* Directory errors that will not go away; any other file system error may be temporary. */
static bool is_permanent(int number)
{
    return number == EACCES || number == ENOTDIR || number == ENAMETOOLONG || number == ELOOP;
}

/* Like directory_newest; if checkpoints that existed before are gone, their file system is not
 * mounted now. */
static int find_visible(struct supervision *s, struct error *err)
{
    int64_t found;

    if (directory_newest(s->save, -1, &found, err) < 0)
        return -1;
    if (found < 0 && s->newest >= 0) {
        error_set(err, "the checkpoints in %s have disappeared: its file system may not be mounted",
                  s->save);
        errno = ENOENT;
        return -1;
    }
    s->newest = found;
    return 0;
}

/* Find the newest checkpoint. If a file server is unavailable, its checkpoints cannot be seen, and
 * the run must not start from scratch: wait until it answers. Returns CONTINUE, the job's answer if
 * the job ends first, or FAILED. */
static enum answer find_newest(struct supervision *s, struct error *err)
{
    enum answer answer = CONTINUE;

    for (int64_t pause = 1; answer == CONTINUE && find_visible(s, err) < 0;
         pause = pause < LONGEST_CHECK / 2 ? 2 * pause : LONGEST_CHECK) {
        if (is_permanent(errno)) {
            error_prefix(err, "--save");
            return FAILED;
        }
        if (pause == 1) {
            error_append(err, "; waiting for the file system");
            log_warning("%s", err->text);
        }
        supervise_signals_sleep(&s->signals, pause);
        answer = s->signals.stopped ? END : ask_job(s, 0);
    }
    return answer;
}

static int start_command(void *context, const char *const *words, struct supervise_signals *signals,
                         struct error *err)
{
    (void)context;
    return run_command(words, -1, signals, err);
}

/* A step that srun repeats by itself must name the directory where it will find its checkpoint from
 * the first start on, unless it begins somewhere else. */
static int run_once(struct supervision *s, bool repeated, struct error *err)
{
    const char **resumed, *step = NULL;
    int code;

    if (s->newest < 0 &&
        (!repeated || words_value(s->words, "--load") || words_value(s->words, "--load-hf")))
        return s->run->start(s->run->context, s->words, &s->signals, err);
    if (s->newest >= 0 && words_step(s->words, s->save, &step, err) < 0)
        return -1;
    resumed = words_resumed(s->words, s->count, s->save, step);
    if (!resumed)
        return error_set(err, "out of memory");
    code = s->run->start(s->run->context, resumed, &s->signals, err);
    free(resumed);
    return code;
}

static void read_stalled(struct supervision *s)
{
    char path[PATH_MAX];
    FILE *file = NULL;

    if (directory_path(path, NULL, "%s/" STARTS, s->save) == 0)
        file = fopen(path, "re");
    if (!file ||
        fscanf(file, "%18" SCNd64 " %18" SCNd64, &s->stalled.iteration, &s->stalled.starts) != 2)
        s->stalled.iteration = -2, s->stalled.starts = 0;
    if (file)
        fclose(file);
}

static void count_start(struct supervision *s)
{
    char text[64];
    struct error ignored;

    s->stalled.starts = s->stalled.iteration == s->newest ? s->stalled.starts + 1 : 1;
    s->stalled.iteration = s->newest;
    snprintf(text, sizeof(text), "%" PRId64 " %" PRId64 "\n", s->stalled.iteration,
             s->stalled.starts);
    /* If the directory does not exist yet, no job has been requeued for it. */
    directory_write(s->save, STARTS, text, strlen(text), &ignored);
}

static void remove_file(const char *save, const char *name)
{
    char path[PATH_MAX];

    if (directory_path(path, NULL, "%s/%s", save, name) == 0)
        unlink(path);
}

/* The words after `megatron train`, which writes TRAIN_BEGUN and TRAIN_DONE; NULL if the command
 * runs something else, which may not. */
static const char *const *train_words(const char *const *words)
{
    for (; words[0] && words[1]; words++) {
        const char *slash = strrchr(words[0], '/');

        if (strcmp(slash ? slash + 1 : words[0], "megatron") == 0 && strcmp(words[1], "train") == 0)
            return words + 2;
    }
    return NULL;
}

/* Does the command only print something? */
static bool only_prints(const char *const *words)
{
    for (words = train_words(words); words && *words; words++)
        if (strcmp(*words, "-h") == 0 || option_after(*words, "--help") ||
            option_after(*words, "--dry-run"))
            return true;
    return false;
}

/* Did the command end with 'code' before all ranks had connected, through no fault of theirs? A
 * slurmstepd that was lost leaves its PMIx socket on its node, and after a requeue Slurm cannot
 * launch steps with the same numbers there. srun then kills the ranks on other nodes, or exits with
 * 0. A rank that dies of another signal failed by itself. */
static bool is_unlaunched(const struct supervision *s, int code)
{
    if (!train_words(s->words))
        return false;
    if (code == 0)
        return !directory_has(s->save, TRAIN_DONE);
    return s->job && (code == 128 + SIGKILL || code == 128 + SIGTERM) &&
           !directory_has(s->save, TRAIN_BEGUN);
}

/* Requeue the job. Slurm then ends this process. */
static int requeue(struct supervision *s, int code, struct error *err)
{
    const char *words[] = {"scontrol", "requeue", s->job, NULL};
    int rc;

    printf("megatron supervise: requeueing job %s\n", s->job);
    fflush(stdout);
    s->signals.received = 0;
    rc = run_command(words, -1, &s->signals, err);
    if (rc < 0)
        return -1;
    /* Slurm may also end scontrol before it gets its answer. */
    if (rc != 0 && rc <= 128)
        return error_set(err,
                         "`scontrol requeue %s` failed with exit code %d; requeue the job by hand",
                         s->job, rc);
    for (int i = 0; i < 60 && !s->signals.received; i++)
        supervise_signals_sleep(&s->signals, 1);
    return code;
}

/* The run was not launched: launch it again? The next step has another number, and this attempt
 * does not count. A command that exits with 0 may be one that never trains: the pauses grow, and
 * after a few of them this returns FAILED. */
static enum answer relaunch(struct supervision *s, int code, struct error *err)
{
    printf("megatron supervise: %s exited with code %d, but the run did not %s\n", s->words[0],
           code, code == 0 ? "finish" : "start");
    fflush(stdout);
    if (++s->launches >= MAX_EMPTY && code == 0) {
        error_set(err,
                  "%s exited with code 0 %d times, but the run did not finish; see its messages "
                  "above, and run a command that does not train without supervise",
                  s->words[0], s->launches);
        return FAILED;
    }
    if (s->launches > MAX_LAUNCHES || ask_job(s, 0) == END)
        return END;
    supervise_signals_sleep(&s->signals,
                            code == 0 ? 1 << (s->launches < 5 ? s->launches - 1 : 4) : 1);
    return s->signals.stopped ? END : CONTINUE;
}

/* Report and count the end of a start; -1 if there were too many without a new checkpoint. */
static int count_end(struct supervision *s, int code, struct error *err)
{
    count_start(s);
    if (s->newest < 0)
        printf("megatron supervise: the run exited with code %d before its first checkpoint\n",
               code);
    else
        printf("megatron supervise: the run exited with code %d; its last checkpoint is iteration "
               "%" PRId64 "\n",
               code, s->newest);
    fflush(stdout);
    if (s->stalled.starts <= s->given->starts)
        return 0;
    remove_file(s->save, STARTS); /* a user who starts it again has changed something */
    return error_set(
        err,
        "%" PRId64
        " consecutive starts saved no new checkpoint in %s; see the run's error messages above",
        s->stalled.starts, s->save);
}

/* Seconds until the next start; the last one began 'lived' seconds ago. Repeated failures may be
 * caused by a file system or network that is down for minutes, so the pause grows. */
static int64_t pause_after(const struct supervision *s, double lived)
{
    int64_t pause = s->given->pause;

    for (int64_t i = 1; i < s->stalled.starts && pause < LONGEST_PAUSE; i++)
        pause *= 4;
    if (pause > LONGEST_PAUSE)
        pause = LONGEST_PAUSE;
    pause -= (int64_t)lived;
    return pause > 0 ? pause : s->given->pause > 0;
}

/* After Ctrl-C, and after an early end outside of a job. */
static void report_stop(const struct supervision *s)
{
    int64_t newest = -1;

    if (directory_newest(s->save, -1, &newest, NULL) == 0 && newest >= 0)
        printf("megatron supervise: stopped; to continue from iteration %" PRId64, newest);
    else
        printf("megatron supervise: stopped before the first checkpoint; to begin again");
    if (s->job)
        printf(", run `scontrol requeue %s` or", s->job);
    else
        printf(",");
    printf(" start the same command again, with --save %s\n", s->save);
    fflush(stdout);
}

/* What to do after a run that stopped with 'code' after 'lived' seconds and is not finished:
 * CONTINUE after a pause, another answer, or FAILED to give up. */
static enum answer after_run(struct supervision *s, int code, double lived, struct error *err)
{
    enum answer answer = find_newest(s, err);
    char when[40] = "now";
    int64_t pause;

    if (answer != CONTINUE)
        return answer;
    if (count_end(s, code, err) < 0)
        return FAILED;
    if (code == TRAIN_ENDED_EARLY)
        return s->job && ask_job(s, 0) != END ? REQUEUE : END;
    pause = pause_after(s, lived);
    answer = ask_job(s, pause);
    if (answer == REQUEUE)
        printf("megatron supervise: not enough time left in this job for another start\n");
    if (answer != CONTINUE)
        return answer;
    if (pause > 1)
        snprintf(when, sizeof(when), "in %" PRId64 " s", pause);
    printf("megatron supervise: restarting %s: restart %" PRId64 " of at most %" PRId64
           " without a new checkpoint\n",
           when, s->stalled.starts, s->given->starts);
    fflush(stdout);
    supervise_signals_sleep(&s->signals, pause);
    return s->signals.stopped ? END : CONTINUE;
}

int supervise(const struct supervise_options *given, const struct supervise_run *run,
              const char *const *words, size_t count, struct error *err)
{
    bool launcher = run->is_launcher;
    struct supervision s = {.given = given,
                            .run = run,
                            .words = words,
                            .count = count,
                            .save = words_value(words, "--save"),
                            .job = launcher ? NULL : getenv("SLURM_JOB_ID"),
                            .newest = -1};
    bool repeated = !launcher && words_resume_themselves(words, (const char *const *)environ);
    bool prints = only_prints(words);
    enum answer answer;
    int code = 1;

    if (!prints && !s.save)
        return error_set_code(
            err, ERROR_USAGE,
            "the command does not save checkpoints to resume from; add --save DIR to it");
    supervise_signals_open(&s.signals, !s.job, launcher ? NULL : words[0]);
    if (prints)
        return run->start(run->context, words, &s.signals, err);
    if (repeated) {
        printf("megatron supervise: srun restarts the step itself (--auto-resume=1), so supervise "
               "does not\n");
        fflush(stdout);
    }
    for (bool started = false;; started = true) {
        double began;

        answer = find_newest(&s, err);
        if (answer != CONTINUE)
            break;
        if (!started)
            read_stalled(&s);
        if (!started && !launcher) {
            setenv(TRAIN_SUPERVISED, "1", 1);
            remove_file(s.save, TRAIN_ARGUMENTS);
        }
        if (!launcher) {
            remove_file(s.save, TRAIN_BEGUN);
            remove_file(s.save, TRAIN_DONE);
        }
        began = clock_now();
        code = run_once(&s, repeated, err);
        if (given->report)
            supervise_report(given->report, words, &s.signals.before);
        if (repeated && code != TRAIN_ENDED_EARLY)
            return code;
        if (!s.signals.stopped && !launcher && is_unlaunched(&s, code)) {
            answer = relaunch(&s, code, err);
            if (answer == FAILED)
                return -1;
            if (answer == CONTINUE)
                continue;
            code = code == 0 ? 1 : code;
        } else {
            s.launches = 0;
        }
        if (code > 0 && s.signals.stopped)
            report_stop(&s);
        if (code <= 0 || code == EXIT_USAGE || code == 126 || code == 127 || s.signals.stopped)
            return code;
        answer = after_run(&s, code, clock_now() - began, err);
        if (answer == END && (s.signals.stopped || (!s.job && code == TRAIN_ENDED_EARLY)))
            report_stop(&s);
        if (answer != CONTINUE)
            break;
    }
    return answer == FAILED ? -1 : answer == REQUEUE ? requeue(&s, code, err) : code;
}

static int run_supervise(void *given, const struct options_result *result, struct error *err)
{
    const struct supervise_run run = {.start = start_command};

    if (result->word_count == 0)
        return error_set_code(
            err, ERROR_USAGE,
            "no command to run; write it after --: megatron supervise -- srun ... "
            "megatron train ...");
    return supervise(given, &run, result->words, result->word_count, err);
}

const struct command command_supervise = {
    .name = "supervise",
    .summary = "restart a training run from its last checkpoint until it is finished",
    .usage =
        "Usage: megatron supervise [--starts N] [--pause SECONDS] [--report FILE] --\n"
        "           srun ... megatron train ...\n"
        "Run a training command and restart it from its last checkpoint until training is "
        "finished:\nimmediately after a crash, or by requeueing the job when its time limit is "
        "near.\n",
    .options = options,
    .size = sizeof(struct supervise_options),
    .defaults = &(const struct supervise_options){.starts = 3, .pause = 15},
    .run = run_supervise,
};
