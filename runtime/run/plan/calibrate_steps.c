/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "estimate.h"
#include "base/core/log.h"

enum {
    RUN_SECONDS = 300, /* after which a run is ended */
    WARM_UP = 8,       /* steps that do not count */
    STEPS = 24,
    WORDS = 64,
};

/* A model, and two numbers of layers, whose steps differ by that of some layers. */
struct trial {
    int64_t hidden, ffn, heads, groups, gated, sequence, micro_batch, vocabulary;
    int64_t few, many;
    int twice; /* also with two micro-batches: large models, whose optimizer takes time */
};

static const struct trial gpu_trials[] = {
    {1024, 4096, 16, 16, 0, 2048, 8, 50304, 4, 16, 0},
    {1536, 6144, 16, 16, 0, 2048, 8, 50304, 4, 12, 0},
    {2048, 8192, 16, 16, 0, 2048, 8, 50304, 4, 12, 0},
    {4096, 16384, 32, 32, 0, 2048, 4, 50304, 2, 6, 1},
    {2048, 5632, 16, 4, 1, 4096, 4, 32000, 4, 12, 0},
    {4096, 14336, 32, 8, 1, 4096, 4, 32000, 2, 6, 1},
    {8192, 28672, 64, 8, 1, 4096, 2, 32000, 1, 3, 1},
};

static const struct trial cpu_trials[] = {
    {64, 256, 4, 4, 0, 32, 4, 256, 1, 3, 1},
    {64, 192, 4, 2, 1, 32, 4, 256, 1, 3, 0},
};

/* --- Runs of `megatron train` ---------------------------------------------------------------- */

/* The command line, and its words. */
struct train_command {
    char text[1024];
    const char *words[WORDS];
};

static void make_command(const struct trial *t, int64_t layers, int64_t batch, int gpu,
                         struct train_command *command)
{
    char *rest = command->text;
    int count = 0, used;

    used = snprintf(rest, sizeof(command->text),
                    "megatron train --mock-data --lr 1e-4 --eval-iters 0 --log-interval 1 "
                    "--hidden-dropout 0 --attention-dropout 0 --tensor-model-parallel-size 1 "
                    "--pipeline-model-parallel-size 1 --context-parallel-size 1 --train-iters %d "
                    "--num-layers %" PRId64 " --hidden-size %" PRId64 " --ffn-hidden-size %" PRId64
                    " --num-attention-heads %" PRId64 " --seq-length %" PRId64
                    " --max-position-embeddings %" PRId64 " --vocab-size %" PRId64
                    " --micro-batch-size %" PRId64 " --global-batch-size %" PRId64 " --device %s",
                    STEPS, layers, t->hidden, t->ffn, t->heads, t->sequence, t->sequence,
                    t->vocabulary, t->micro_batch, batch, gpu ? "cuda --bf16" : "cpu");
    if (t->gated)
        snprintf(rest + used, sizeof(command->text) - (size_t)used,
                 " --swiglu --normalization RMSNorm --position-embedding-type rope "
                 "--disable-bias-linear --group-query-attention "
                 "--untie-embeddings-and-output-weights --num-query-groups %" PRId64,
                 t->groups);
    while (count < WORDS - 1 && rest)
        command->words[count++] = strsep(&rest, " ");
    command->words[count] = NULL;
}

/* In the child: one rank alone, whatever job this is in, with its output in the pipe. */
static void become_train(const struct train_command *command, int output)
{
    static const char *const alone[][2] = {
        {"MEGATRON_RANK", "0"},       {"MEGATRON_WORLD_SIZE", "1"}, {"MEGATRON_LOCAL_RANK", "0"},
        {"MEGATRON_LOCAL_SIZE", "1"}, {"MEGATRON_NODE_RANK", "0"},  {"MEGATRON_NODES", "1"}};

    for (size_t i = 0; i < sizeof(alone) / sizeof(*alone); i++)
        setenv(alone[i][0], alone[i][1], 1);
    unsetenv("MEGATRON_MODEL");
    if (dup2(output, 1) < 0 || dup2(output, 2) < 0)
        _exit(127);
    alarm(RUN_SECONDS);
    execv("/proc/self/exe", (char *const *)(uintptr_t)command->words);
    _exit(127);
}

/* The times of the steps in the log, and its last line that begins as an error does. */
static int read_log(FILE *log, double times[STEPS], char *said, size_t size)
{
    static const char label[] = "elapsed time per iteration (ms): ", program[] = "megatron: ";
    char *line = NULL;
    size_t length = 0;
    int count = 0;

    said[0] = '\0';
    while (getline(&line, &length, log) > 0) {
        const char *at = strstr(line, label);

        line[strcspn(line, "\n")] = '\0';
        if (at && count < STEPS)
            times[count++] = strtod(at + sizeof(label) - 1, NULL) / 1000;
        else if (strncmp(line, program, sizeof(program) - 1) == 0)
            snprintf(said, size, "%s", line + sizeof(program) - 1);
    }
    free(line);
    return count;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Why a run has no times: its status, the last line it said, and how many steps it logged. */
static int say_failure(int status, const char *said, int count, struct error *err)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        return error_set(err, "megatron train took longer than %d seconds; run it on an idle node",
                         RUN_SECONDS);
    if (WIFSIGNALED(status))
        return error_set(err,
                         "megatron train was killed by signal %d; see dmesg on this node (was it "
                         "killed for memory?)",
                         WTERMSIG(status));
    if (said[0])
        return error_set(err, "%s", said);
    if (status != 0)
        return error_set(err, "megatron train failed (exit code %d); see its output above",
                         WEXITSTATUS(status));
    return error_set(err, "megatron train logged %d of %d steps; run it again on an idle node",
                     count, STEPS);
}

/* Seconds of a step: the median after the warm-up. */
static int time_steps(const struct train_command *command, double *seconds, struct error *err)
{
    double times[STEPS];
    char said[512];
    int ends[2], status = 0, count;
    FILE *log;
    pid_t pid;

    if (pipe(ends) < 0)
        return error_set_errno(err, errno, "cannot create a pipe");
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        become_train(command, ends[1]);
    }
    close(ends[1]);
    log = pid > 0 ? fdopen(ends[0], "r") : NULL;
    if (!log) {
        close(ends[0]);
        return error_set_errno(err, errno, "cannot start megatron train");
    }
    count = read_log(log, times, said, sizeof(said));
    fclose(log);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0 || count < STEPS)
        return say_failure(status, said, count, err);
    qsort(times + WARM_UP, STEPS - WARM_UP, sizeof(*times), compare);
    *seconds = times[(WARM_UP + STEPS) / 2];
    return 0;
}

/* --- Results --------------------------------------------------------------------------------- */

static double parameters_of(const struct trial *t, int64_t layers)
{
    struct plan_run run = {.shape = {.layers = layers,
                                     .hidden = t->hidden,
                                     .ffn_hidden = t->ffn,
                                     .heads = t->heads,
                                     .query_groups = t->groups,
                                     .vocabulary = t->vocabulary,
                                     .sequence = t->sequence},
                           .gated = (int)t->gated,
                           .tied = !t->gated,
                           .layout = {.tp = 1, .pp = 1, .cp = 1, .dp = 1},
                           .chunks = 1,
                           .micro_batch = t->micro_batch,
                           .global_batch = t->micro_batch};

    return plan_stage(&run, 0).parameters;
}

struct outcome {
    double few, many, twice; /* seconds of a step: few and many layers, and two micro-batches */
};

static int run_trial(const struct trial *t, int gpu, struct outcome *out, struct error *err)
{
    struct train_command command;

    make_command(t, t->many, t->micro_batch, gpu, &command);
    if (time_steps(&command, &out->many, err) < 0)
        return -1;
    make_command(t, t->many, 2 * t->micro_batch, gpu, &command);
    if (t->twice && time_steps(&command, &out->twice, err) < 0)
        return -1;
    make_command(t, t->few, t->micro_batch, gpu, &command);
    return time_steps(&command, &out->few, err);
}

/* A second micro-batch adds all but the optimizer. */
static double optimizer_of(const struct outcome *o)
{
    double seconds = 2 * o->many - o->twice;

    return seconds > 0 ? seconds : 0;
}

/* The traffic of the optimizer, from all trials together; 'usual' if none could be run. */
static double optimizer_bytes(const struct trial *trials, const struct outcome *outcomes,
                              size_t count, double bandwidth, double usual)
{
    double seconds = 0, parameters = 0;

    for (size_t i = 0; i < count; i++)
        if (outcomes[i].many > 0 && trials[i].twice) {
            seconds += optimizer_of(&outcomes[i]);
            parameters += parameters_of(&trials[i], trials[i].many);
        }
    return parameters > 0 ? seconds * bandwidth / parameters : usual;
}

static void add_step(struct machine *machine, const struct trial *t, const struct outcome *o)
{
    struct machine_gpu *gpu = &machine->gpu;
    double bandwidth = gpu->memory_bandwidth * gpu->rates.hbm;
    double update = gpu->rates.optimizer_bytes / bandwidth;
    double layers = (double)(t->many - t->few), few = parameters_of(t, t->few);
    double layer = (o->many - o->few - update * (parameters_of(t, t->many) - few)) / layers;
    double head = o->few - (double)t->few * layer - update * few - gpu->rates.fixed;
    struct machine_step step = {.hidden = (double)t->hidden,
                                .ffn = (double)t->ffn,
                                .heads = (double)t->heads,
                                .groups = (double)t->groups,
                                .gated = (double)t->gated,
                                .sequence = (double)t->sequence,
                                .micro_batch = (double)t->micro_batch,
                                .vocabulary = (double)t->vocabulary,
                                .layer = layer,
                                .head = head};

    /* On a busy machine a difference of two times may mean nothing. */
    if (layer > 0 && head > 0)
        gpu->steps[gpu->step_count++] = step;
    else
        log_warning("the steps with hidden size %lld vary too much to tell the time of a layer; "
                    "run this again when the node is idle",
                    (long long)t->hidden);
}

int calibrate_steps(struct machine *machine, int gpu, struct error *err)
{
    const struct trial *trials = gpu ? gpu_trials : cpu_trials;
    size_t count =
        gpu ? sizeof(gpu_trials) / sizeof(*gpu_trials) : sizeof(cpu_trials) / sizeof(*cpu_trials);
    struct machine_rates *rates = &machine->gpu.rates;
    struct outcome outcomes[MACHINE_STEPS] = {{0}};
    size_t done = 0;
    double bytes;

    for (size_t i = 0; i < count; i++) {
        if (run_trial(&trials[i], gpu, &outcomes[i], err) == 0) {
            done++;
            continue;
        }
        outcomes[i].many = 0;
        log_warning("not measured: steps with hidden size %lld: %s", (long long)trials[i].hidden,
                    err->text);
    }
    if (done == 0)
        return error_prefix(err, "no training step could be measured");
    bytes = optimizer_bytes(trials, outcomes, count, machine->gpu.memory_bandwidth * rates->hbm,
                            rates->optimizer_bytes);
    rates->optimizer_bytes = bytes < 1 ? 1 : bytes > 128 ? 128 : bytes;
    machine->gpu.step_count = 0;
    for (size_t i = 0; i < count; i++)
        if (outcomes[i].many > 0)
            add_step(machine, &trials[i], &outcomes[i]);
    calibrate_fit(machine);
    return 0;
}
