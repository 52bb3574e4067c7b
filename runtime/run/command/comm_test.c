/* SPDX-License-Identifier: Apache-2.0 */
/* megatron comm-test: time and check collectives over the job's ranks before training starts. */
#include "commands.h"
#include "lib/clock.h"
#include "engine/comm/comm.h"
#include "engine/device/device.h"
#include "base/core/option_rows.h"
#include "engine/parallel/ranks.h"
#include "base/core/world.h"
#include "base/core/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    int64_t min_bytes, max_bytes, iterations, warmup, timeout;
    int device;
};

enum kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, SEND_RECEIVE, KINDS };

static const char *const kind_names[] = {"all-reduce", "all-gather", "reduce-scatter",
                                         "send and receive"};

/* One benchmark run. */
struct bench {
    const struct settings *settings;
    struct device *device;
    struct device_stream *stream;
    struct comm *comm;
    struct comm_group *group;
    float *from, *to; /* device buffers of the largest size */
    float *host;      /* host buffer of CHECKED elements */
    float sum;        /* sum over all ranks of element 0 */
    int64_t wrong;
};

/* Each rank's data repeats with this period. It is a prime, so misplaced blocks are noticed. */
enum { PERIOD = 251 };
enum { CHECKED = (1 << 18) / PERIOD * PERIOD }; /* elements compared at each end of a result */

#define AT(member) offsetof(struct settings, member)

static const struct option table[] = {
    BYTES("min-bytes", min_bytes, "SIZE", 4, INT64_MAX, "smallest message size (default: 8)"),
    BYTES("max-bytes", max_bytes, "SIZE", 4, INT64_MAX,
          "largest message size, for example 128M (default: 1G)"),
    RANGE("iterations", iterations, 1, 100000, "timed calls per size"),
    RANGE("warmup", warmup, 0, 100000, "warm-up calls per size"),
    RANGE("timeout-minutes", timeout, 1, 10000, "timeout of every wait"),
    WORD("device", device, "auto|cpu|cuda", "auto|cpu|cuda", "device whose memory is used",
         .otherwise = "cuda if the node has a GPU"),
    {0},
};

static int fill(struct bench *b, float *out, int64_t count, double value, struct error *err)
{
    struct operation operation = {.kind = OPERATION_FILL, .fill = {count, TYPE_FP32, value}};
    struct device_plan *plan = plan_create(b->device, &operation, err);
    int rc;

    if (!plan)
        return -1;
    run_fill(plan, b->stream, &(struct fill_operands){out});
    rc = device_stream_wait(b->stream, 60.0 * (double)b->settings->timeout, err);
    plan_destroy(plan);
    return rc;
}

/* Elements each rank contributes: all-gather and reduce-scatter divide 'count' among the ranks. */
static int64_t elements_per_rank(const struct bench *b, enum kind kind, int64_t count)
{
    return kind == ALL_GATHER || kind == REDUCE_SCATTER ? count / b->comm->size : count;
}

static void start(struct bench *b, enum kind kind, int64_t count)
{
    size_t part = (size_t)elements_per_rank(b, kind, count);
    int size = b->comm->size, rank = b->comm->rank;
    struct comm_message messages[2] = {
        {(rank + 1) % size, 1, b->from, part, TYPE_FP32},
        {(rank + size - 1) % size, 0, b->to, part, TYPE_FP32},
    };

    switch (kind) {
    case ALL_REDUCE:
        comm_all_reduce(b->group, b->stream, b->to, part, TYPE_FP32, COMM_SUM);
        break;
    case ALL_GATHER:
        comm_all_gather(b->group, b->stream, b->from, b->to, part, TYPE_FP32);
        break;
    case REDUCE_SCATTER:
        comm_reduce_scatter(b->group, b->stream, b->from, b->to, part, TYPE_FP32);
        break;
    default:
        comm_exchange(b->group, b->stream, messages, 2);
        break;
    }
}

static int finish(struct bench *b, struct error *err)
{
    /* Slightly longer than comm's own timeout, because comm can name the collective that hangs. */
    return device_stream_wait(b->stream, 60.0 * (double)b->settings->timeout + 10, err) < 0 ||
                   comm_check(b->comm, err) < 0
               ? -1
               : 0;
}

/* Element i of a rank's input. Values to be summed are small: fp32 then holds the sum of 60,000
 * ranks exactly, in any order of addition. */
static float input_element(enum kind kind, int rank, int64_t i)
{
    int64_t mine = kind == ALL_REDUCE || kind == REDUCE_SCATTER ? rank % 16 : rank;

    return (float)(mine + 1 + i % PERIOD);
}

/* The expected value of element i of the result. */
static float expected(const struct bench *b, enum kind kind, int64_t part, int64_t i)
{
    int size = b->comm->size, rank = b->comm->rank;

    if (kind == ALL_GATHER)
        return input_element(kind, (int)(i / part), i % part);
    if (kind == SEND_RECEIVE)
        return input_element(kind, (rank + size - 1) % size, i);
    if (kind == REDUCE_SCATTER)
        i += rank * part;
    return b->sum + (float)(size * (i % PERIOD));
}

/* Fill 'out' with this rank's input. */
static int fill_input(struct bench *b, enum kind kind, float *out, int64_t count, struct error *err)
{
    for (int64_t i = 0; i < CHECKED; i++)
        b->host[i] = input_element(kind, b->comm->rank, i);
    for (int64_t at = 0; at < count; at += CHECKED)
        device_copy(b->stream, out + at, b->host,
                    (size_t)(count - at < CHECKED ? count - at : CHECKED) * sizeof(float),
                    COPY_TO_DEVICE);
    return finish(b, err);
}

static int compare(struct bench *b, enum kind kind, int64_t part, int64_t first, int64_t count,
                   struct error *err)
{
    device_copy(b->stream, b->host, b->to + first, (size_t)count * sizeof(float), COPY_TO_HOST);
    if (finish(b, err) < 0)
        return -1;
    for (int64_t i = 0; i < count; i++)
        b->wrong += b->host[i] != expected(b, kind, part, first + i);
    return 0;
}

/* Check one call on known data; the output buffer is filled with NaN first. */
static int check(struct bench *b, enum kind kind, int64_t count, struct error *err)
{
    int64_t part = elements_per_rank(b, kind, count);
    int64_t all = kind == ALL_GATHER ? part * b->comm->size : part;
    int64_t end = all < CHECKED ? all : CHECKED;

    b->sum = 0;
    for (int r = 0; r < b->comm->size; r++)
        b->sum += input_element(kind, r, 0);
    if (fill(b, b->to, count, NAN, err) < 0 ||
        fill_input(b, kind, kind == ALL_REDUCE ? b->to : b->from, count, err) < 0)
        return -1;
    start(b, kind, count);
    if (finish(b, err) < 0 || compare(b, kind, part, 0, end, err) < 0)
        return -1;
    return all > end ? compare(b, kind, part, all - end, end, err) : 0;
}

/* Time of one call in seconds: averaged over the calls of a rank, then the maximum over ranks. */
static int measure(struct bench *b, enum kind kind, int64_t count, double *seconds,
                   struct error *err)
{
    double mine, *all = xcalloc((size_t)b->comm->size, sizeof(*all));
    int rc = -1;

    if (fill(b, b->to, count, 0, err) < 0 || fill(b, b->from, count, 0, err) < 0)
        goto out;
    for (int64_t i = 0; i < b->settings->warmup; i++)
        start(b, kind, count);
    if (finish(b, err) < 0 || comm_host_gather(b->comm, NULL, NULL, 0, err) < 0)
        goto out;
    mine = clock_now();
    for (int64_t i = 0; i < b->settings->iterations; i++)
        start(b, kind, count);
    if (finish(b, err) < 0)
        goto out;
    mine = (clock_now() - mine) / (double)b->settings->iterations;
    if (comm_host_gather(b->comm, &mine, all, sizeof(mine), err) < 0)
        goto out;
    *seconds = 0;
    for (int r = 0; r < b->comm->size; r++)
        *seconds = all[r] > *seconds ? all[r] : *seconds;
    rc = 0;
out:
    free(all);
    return rc;
}

/* Bus bandwidth divided by algorithm bandwidth, as nccl-tests defines it. */
static double bus_factor(enum kind kind, int size)
{
    double n = size;

    return kind == ALL_REDUCE ? 2 * (n - 1) / n : kind == SEND_RECEIVE ? 1 : (n - 1) / n;
}

static int test_kind(struct bench *b, enum kind kind, struct error *err)
{
    int prints = b->comm->rank == 0;

    if (prints)
        printf("# %s\n#%13s %12s %12s %14s %14s %7s\n", kind_names[kind], "bytes", "elements",
               "time (us)", "algbw (GB/s)", "busbw (GB/s)", "wrong");
    for (int64_t bytes = b->settings->min_bytes; bytes <= b->settings->max_bytes; bytes *= 2) {
        int64_t count = bytes / (int64_t)sizeof(float), before = b->wrong;
        int64_t part = elements_per_rank(b, kind, count);
        double seconds = 0, rate;

        if (part == 0)
            continue;
        /* Round down to a multiple of the number of ranks. */
        count = part == count ? count : part * b->comm->size;
        if (check(b, kind, count, err) < 0 || measure(b, kind, count, &seconds, err) < 0)
            return -1;
        rate = (double)count * sizeof(float) / seconds * 1e-9;
        if (prints)
            printf("%14lld %12lld %12.1f %14.2f %14.2f %7lld\n",
                   (long long)(count * (int64_t)sizeof(float)), (long long)count, seconds * 1e6,
                   rate, rate * bus_factor(kind, b->comm->size), (long long)(b->wrong - before));
        fflush(stdout);
    }
    return 0;
}

static int open_bench(struct bench *b, const struct world *world, struct error *err)
{
    struct ranks_config config = {.device = (enum device_choice)b->settings->device};
    int gpu = strcmp(ranks_device(config.device), "cuda") == 0;
    struct comm_options comm = comm_options_of(world, NULL, 60.0 * (double)b->settings->timeout);
    size_t bytes = (size_t)b->settings->max_bytes;
    int *ranks = xcalloc((size_t)world->size, sizeof(*ranks));

    b->device = ranks_open_device(&config, world, err);
    if (b->device && ranks_check_health(b->device, world, err) == 0)
        b->stream = device_stream_create(b->device, 0);
    comm.device = b->device;
    comm.longer = "raise --timeout-minutes";
    if (b->stream)
        b->comm = comm_open(comm_choose((int)world->size, gpu), &comm, err);
    for (int r = 0; r < world->size; r++)
        ranks[r] = r;
    if (b->comm)
        b->group = comm_group_create(b->comm, "world", ranks, (int)world->size, err);
    free(ranks);
    if (!b->group)
        return -1;
    b->from = device_allocate(b->device, bytes, err);
    b->to = b->from ? device_allocate(b->device, bytes, err) : NULL;
    if (!b->to)
        return error_append(err, "; use a smaller --max-bytes");
    b->host = device_host_allocate(b->device, CHECKED * sizeof(float), err);
    return b->host ? 0 : -1;
}

static void close_bench(struct bench *b)
{
    if (b->device) {
        device_release(b->device, b->from);
        device_release(b->device, b->to);
        device_host_release(b->device, b->host);
    }
    comm_group_destroy(b->group);
    comm_close(b->comm);
    device_stream_destroy(b->stream);
    device_close(b->device);
}

static int run_tests(const struct settings *settings, struct error *err)
{
    struct bench b = {.settings = settings};
    struct world world;
    int64_t *wrong = NULL, all = 0;
    int rc = -1;

    if (world_read(&world, err) < 0)
        return -1;
    if (open_bench(&b, &world, err) < 0)
        goto out;
    if (world.rank == 0)
        printf("# %d rank%s over %s, memory of %s (%s)\n", b.comm->size,
               b.comm->size == 1 ? "" : "s", b.comm->name, b.device->name, b.device->model);
    for (int kind = 0; kind < KINDS; kind++)
        if ((kind != SEND_RECEIVE || b.comm->size > 1) && test_kind(&b, (enum kind)kind, err) < 0)
            goto out;
    wrong = xcalloc((size_t)b.comm->size, sizeof(*wrong));
    if (comm_host_gather(b.comm, &b.wrong, wrong, sizeof(b.wrong), err) < 0)
        goto out;
    for (int r = 0; r < b.comm->size; r++)
        all += wrong[r];
    if (world.rank == 0)
        printf("# %lld wrong elements on all ranks\n", (long long)all);
    rc = all > 0;
out:
    if (rc < 0 && b.comm && b.comm->size > 1)
        comm_abort(b.comm, err->text);
    free(wrong);
    close_bench(&b);
    return rc;
}

static int run_comm_test(void *given, const struct options_result *result, struct error *err)
{
    const struct settings *settings = given;

    (void)result;
    if (settings->min_bytes <= settings->max_bytes)
        return run_tests(settings, err);
    error_set_code(err, ERROR_USAGE,
                   "--min-bytes=%lld is greater than --max-bytes=%lld; change one of them",
                   (long long)settings->min_bytes, (long long)settings->max_bytes);
    return world_say_once(0, err);
}

const struct command command_comm_test = {
    .name = "comm-test",
    .summary = "time and check collectives over the job's ranks",
    .usage = "Usage: megatron comm-test [OPTION...]\n"
             "Time and check collectives over the job's ranks, started by srun or mpirun.\n",
    .options = table,
    .size = sizeof(struct settings),
    .defaults = &(const struct settings){8, (int64_t)1 << 30, 20, 5, 10, DEVICE_AUTO},
    .unexpected = "options begin with two dashes",
    .reported_once = true,
    .run = run_comm_test,
};
