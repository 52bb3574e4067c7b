/* SPDX-License-Identifier: Apache-2.0 */
/* Before the first step. */
#include "config.h"
#include "train_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "choices.h"
#include "lib/clock.h"
#include "arguments.h"
#include "run/checkpoint/directory.h"
#include "base/core/shell_quote.h"
#include "base/core/storage.h"
#include "lib/file.h"
#include "run/exchange/hf.h"
#include "base/core/log.h"
#include "configure.h"
#include "base/core/gib.h"
#include "rank_memory.h"
#include "engine/parallel/ranks.h"

static int is_unfused(const struct arguments *a)
{
    return a->machine.attention_backend == ATTENTION_UNFUSED ||
           a->machine.attention_backend == ATTENTION_LOCAL;
}

/* Open this rank's device and connect the ranks. */
static int open_ranks(struct train *t, struct error *err)
{
    const struct arguments *a = t->a;
    struct ranks_config config = {
        .device = (enum device_choice)a->machine.device,
        .type = a->model_config.numerics.type,
        .fp8 = a->model_config.numerics.fp8.format != FP8_NONE,
        .fp8_blocks = a->model_config.numerics.fp8.format != FP8_NONE &&
                      a->model_config.numerics.fp8.recipe == FP8_BLOCKWISE,
        .threads = a->machine.threads,
        .deterministic = a->machine.deterministic,
        .unfused_attention = is_unfused(a),
        .random_order = a->machine.random_order,
        .seed = (uint64_t)a->run.seed,
        .deadline = 60.0 * a->parallel.timeout_minutes,
        .layout = a->layout,
    };
    struct ranks ranks;
    int rc = ranks_open(&ranks, &config, t->world, err);

    t->device = ranks.device;
    t->comm = ranks.comm;
    t->parallel = ranks.parallel;
    return rc < 0 ? -1 : ranks_check_health(t->device, t->world, err);
}

/* Create the engine; in deterministic mode, with the algorithms of the previous run, the same on
 * all ranks. */
static int make_engine(struct train *t, struct error *err)
{
    const struct arguments *a = t->a;
    struct engine_config config = configure_engine(a);
    char *restored = NULL;
    int remember, again = 0, rc = 0;

    if (a->machine.deterministic && a->checkpoint.load &&
        choices_restore(&t->parallel, t->device, a->checkpoint.load, &restored, err) < 0)
        return -1;
    remember = !restored && t->world->local_rank == 0;
    t->engine = engine_create(&config, &t->parallel, t->device, err);
    if (t->engine && a->machine.deterministic)
        rc = choices_agree(&t->parallel, t->device, restored, remember, &again, err);
    free(restored);
    if (rc < 0)
        return -1;
    if (again) {
        engine_destroy(t->engine);
        t->engine = engine_create(&config, &t->parallel, t->device, err);
    }
    return t->engine ? 0 : -1;
}

/* --nccl-ub; memory that cannot be registered works without it. */
static void register_memory(struct train *t)
{
    size_t taken = model_register(engine_model(t->engine));

    if (t->world->rank != 0)
        return;
    if (taken > 0)
        printf(" > %.3f GiB registered with NCCL on this rank\n", gib((double)taken));
    else
        log_warning(
            "--nccl-ub has no effect: it needs data- or tensor-parallel ranks on GPUs; drop it");
}

/* Print performance advice on the first rank that has any: usually all have, sometimes only one
 * node. */
static int print_advice(const struct train *t, struct error *err)
{
    const char *advice = t->device->advice.text;
    int64_t own, first;

    device_settle(t->device);
    own = first = advice[0] ? t->comm->size - t->comm->rank : 0;
    if (comm_host_max(t->comm, &first, 1, err) < 0)
        return -1;
    if (first == 0 || first != own)
        return 0;
    if (t->comm->rank > 0)
        log_warning("rank %d, %s: %s", t->comm->rank, t->device->model, advice);
    else
        log_warning("%s", advice);
    return 0;
}

static int create_engine(struct train *t, struct error *err)
{
    const struct arguments *a = t->a;
    int rc;

    if (make_engine(t, err) < 0)
        return -1;
    if (a->machine.nccl_ub)
        register_memory(t);
    if (a->checkpoint.load_hf && hf_load(a->checkpoint.load_hf, &a->model_config,
                                         engine_model(t->engine), t->device, err) < 0)
        return error_prefix(err, "--load-hf");
    rc = saving_open(&t->saving, a, t->world, t->engine, &t->parallel, t->device,
                     !a->checkpoint.load_hf, err);
    if (rc < 0)
        return rc;
    if (a->machine.deterministic && a->checkpoint.save &&
        choices_keep(&t->parallel, t->device, a->checkpoint.save, err) < 0)
        return -1;
    t->iteration = t->logged = a->run.skip_train ? t->saving.loaded : t->saving.start.iteration;
    t->consumed = t->saving.start.consumed;
    t->consumed_valid = t->saving.start.consumed_valid;
    t->total =
        a->run.train_samples > 0 ? t->iteration + steps_left(a, t->consumed) : a->total_iterations;
    return print_advice(t, err);
}

int train_leave_mark(const struct train *t, const char *name, struct error *err)
{
    if (!t->a->checkpoint.save || t->world->rank != 0)
        return 0;
    return directory_prepare(t->a->checkpoint.save, err) < 0
               ? -1
               : directory_write(t->a->checkpoint.save, name, "", 0, err);
}

/* Rank 0 checks what the options name before weights are created or loaded, which may take minutes.
 * Returns 0, TRAIN_REFUSED on all ranks if no attempt can succeed, or -1 on rank 0. */
static int check_paths(struct train *t, struct error *err)
{
    int64_t refused = 0;
    int rc = 0;

    if (t->comm->rank == 0) {
        errno = 0;
        if (t->a->checkpoint.save_hf &&
            hf_save_check(t->a->checkpoint.save_hf, &t->a->model_config, err) < 0) {
            err->code = file_error_may_pass(errno) ? ERROR_FAILURE : ERROR_USAGE;
            rc = error_prefix(err, "--save-hf");
        } else {
            rc = saving_check(t->a, err) < 0 || feeds_check(t->a, err) < 0 ? -1 : 0;
        }
        refused = rc < 0 && err->code == ERROR_USAGE;
        if (rc < 0 && !refused)
            return -1;
    }
    if (comm_host_max(t->comm, &refused, 1, err) < 0)
        return -1;
    return refused ? TRAIN_REFUSED : 0;
}

enum { LONGEST_COMMAND = 1 << 20 };

static void print_command(void)
{
    struct file_bytes bytes;
    struct error ignored;

    if (file_read("/proc/self/cmdline", LONGEST_COMMAND, &bytes, &ignored) < 0)
        return;
    printf("command line:");
    for (size_t at = 0; at < bytes.length; at += strlen(bytes.data + at) + 1) {
        putchar(' ');
        shell_quote(bytes.data + at, stdout);
    }
    printf("\n");
    file_bytes_clear(&bytes);
}

/* The first lines of the log: version, time, host and command line, which `megatron report` reads.
 * The process started 'ago' seconds ago. */
static void print_start(double ago)
{
    const char *job = getenv("SLURM_JOB_ID");
    char when[40], host[256] = "";
    struct tm parts;
    time_t began = (time_t)(clock_wall() - ago);

    gethostname(host, sizeof(host) - 1);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", gmtime_r(&began, &parts));
    printf("megatron %s started at %s UTC on %s%s%s; built with:%s\n", PACKAGE_VERSION, when, host,
           job ? ", job " : "", job ? job : "", MEGATRON_FEATURES);
    print_command();
}

int train_set_up(struct train *t, struct error *err)
{
    struct error ignored;
    int rc;

    if (open_ranks(t, err) < 0)
        return -1;
    train_leave_mark(t, TRAIN_BEGUN, &ignored); /* an unwritable directory is reported below */
    t->prints = t->comm->rank == t->comm->size - 1;
    rc = check_paths(t, err);
    if (rc < 0)
        return rc;
    if (t->comm->rank == 0)
        print_start(clock_now() - t->began);
    if (rank_memory_check(t->a, t->world, t->device, &t->parallel, t->comm->rank == 0, err) < 0)
        return -1;
    rc = create_engine(t, err);
    if (rc == 0)
        rc = feeds_open(&t->feeds, t->a, &t->parallel, t->saving.seed, &t->saving.start, t->total,
                        err);
    if (rc < 0)
        return rc;
    if (t->prints && outputs_open(&t->outputs, t->a, err) < 0)
        return -1;
    rc = rank_times_open(&t->rank_times, &t->parallel, t->world, t->iteration,
                         t->a->output.straggler_interval, &t->outputs, err);
    if (rc == 0 && t->prints && !t->a->run.skip_train && t->iteration < t->total)
        data_record_keep(t->a, t->saving.seed);
    return rc;
}
