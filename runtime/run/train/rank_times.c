/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "rank_times.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/contract.h"
#include "lib/cpuset.h"
#include "base/core/kernel_log.h"
#include "base/core/log.h"
#include "base/core/report_records.h"
#include "base/core/xmalloc.h"

/* Limits above the median, and comparisons in a row before a rank is named. */
#define GPU_LIMIT 0.06
#define CPU_LIMIT 0.5
enum { IN_A_ROW = 2 };

/* All ranks' times are written for the heat map; of large jobs, less often. */
enum { RANKS_PER_RECORD = 64 };

/* --- This rank -------------------------------------------------------------------------------- */

/* "Tcp: ... RetransSegs ..." in two lines of /proc/net/snmp: names, then values. */
static uint64_t read_retransmitted(void)
{
    FILE *file = fopen("/proc/net/snmp", "re");
    char names[1024], values[1024];
    uint64_t number = 0;

    while (file && fgets(names, sizeof(names), file) && fgets(values, sizeof(values), file)) {
        char *name = names, *value = values, *a, *b;

        if (strncmp(names, "Tcp:", 4) != 0)
            continue;
        while ((a = strsep(&name, " \n")) && (b = strsep(&value, " \n")))
            if (strcmp(a, "RetransSegs") == 0)
                number = strtoull(b, NULL, 10);
    }
    if (file)
        fclose(file);
    return number;
}

static void copy_variable(enum contract_variable variable, char *to, size_t size)
{
    const char *text = getenv(contract_name(variable));

    snprintf(to, size, "%s", text ? text : "");
}

static void describe_place(struct rank_place *place, const struct parallel *parallel)
{
    struct cpuset set;
    struct error ignored;

    memset(place, 0, sizeof(*place));
    gethostname(place->host, sizeof(place->host) - 1);
    if (cpuset_of_thread(&set, &ignored) < 0)
        cpuset_clear(&set);
    cpuset_format(&set, place->cpus, sizeof(place->cpus));
    copy_variable(CONTRACT_GPU, place->gpus, sizeof(place->gpus));
    copy_variable(CONTRACT_GPU_PCI, place->pci, sizeof(place->pci));
    copy_variable(CONTRACT_NICS, place->nics, sizeof(place->nics));
    place->stage = (int32_t)parallel->at.pp;
    place->gpu = strcmp(parallel->comm->device->name, "cpu") != 0;
}

/* Find this rank's GPU by its address, or by number if the launcher did not say. */
static void find_gpu(struct rank_times *t, const struct rank_place *place)
{
    struct gpu_state state;

    t->index = t->kernel_log = -1;
    if (!place->gpu)
        return;
    t->nvml = nvml_gpus_open(NULL);
    for (int i = 0; t->nvml && i < nvml_gpus_count(t->nvml); i++)
        if (nvml_gpus_read(t->nvml, i, &state) == 0 &&
            (place->pci[0] ? strncmp(place->pci, state.bus, strlen(state.bus)) == 0
                           : i == t->local_rank)) {
            t->index = i;
            memcpy(t->bus, state.bus, sizeof(t->bus));
        }
    t->kernel_log = kernel_log_open("", 1);
}

/* The log names a GPU without its function: 0000:53:00. */
static void take_xid(void *context, const char *bus, int number)
{
    struct rank_times *t = context;

    if (strncasecmp(t->bus, bus, strlen(bus)) == 0)
        t->xid = number;
}

static void take_sample(struct rank_times *t, double seconds, struct rank_sample *sample)
{
    struct gpu_state state = {.watts = -1, .megahertz = -1, .celsius = -1};
    uint64_t retransmitted = read_retransmitted();

    if (t->index >= 0)
        nvml_gpus_sample(t->nvml, t->index, &state);
    if (t->kernel_log >= 0)
        kernel_log_xids(t->kernel_log, take_xid, t);
    *sample = (struct rank_sample){.milliseconds = (float)(1000 * seconds),
                                   .watts = (float)state.watts,
                                   .mhz = (float)state.megahertz,
                                   .celsius = (float)state.celsius,
                                   .slow_reasons = (uint32_t)state.slow_reasons,
                                   .retransmitted = (uint32_t)(retransmitted - t->retransmitted),
                                   .xid = t->xid};
    t->retransmitted = retransmitted;
}

/* --- Records ---------------------------------------------------------------------------------- */

static void begin_record(struct json_writer *json, const char *kind)
{
    json_open(json, NULL, '{');
    json_put_string(json, "record", kind);
    json_put_integer(json, "version", RECORDS_VERSION);
    json_put_fixed(json, "time", clock_wall(), 3);
}

static void end_record(struct json_writer *json)
{
    json_close(json);
    json_end_line(json);
}

/* The items of a list such as "a,b". */
static void write_list(struct json_writer *json, const char *name, const char *list)
{
    json_open(json, name, '[');
    for (size_t length; *list; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        json_put_text(json, NULL, list, length);
    }
    json_close(json);
}

/* One record per host with its ranks. */
static void write_places(const struct rank_times *t, struct json_writer *json)
{
    for (int first = 0; first < t->size; first++) {
        const char *host = t->places[first].host;
        bool seen = false;

        for (int r = 0; r < first && !seen; r++)
            seen = strcmp(t->places[r].host, host) == 0;
        if (seen)
            continue;
        begin_record(json, "placement");
        json_put_string(json, "host", host);
        json_open(json, "tasks", '[');
        for (int r = first; r < t->size; r++) {
            const struct rank_place *place = &t->places[r];

            if (strcmp(place->host, host) != 0)
                continue;
            json_open(json, NULL, '{');
            json_put_integer(json, "task", r);
            json_put_integer(json, "rank", r);
            write_list(json, "gpus", place->gpus);
            write_list(json, "nics", place->nics);
            json_put_string(json, "cpus", place->cpus);
            json_close(json);
        }
        json_close(json);
        end_record(json);
    }
}

static void write_ranks(const struct rank_times *t, int64_t iteration, struct json_writer *json)
{
    begin_record(json, "ranks");
    json_put_integer(json, "iteration", iteration);
    json_open(json, "hosts", '[');
    for (int r = 0; r < t->size; r++)
        json_put_string(json, NULL, t->places[r].host);
    json_close(json);
    json_open(json, "ms", '[');
    for (int r = 0; r < t->size; r++)
        json_put_fixed(json, NULL, (double)t->samples[r].milliseconds, 2);
    json_close(json);
    end_record(json);
}

/* [min, mean, max] over the ranks that know these numbers, if there is one. */
static void write_power(const struct rank_times *t, int64_t iteration, struct json_writer *json)
{
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {{"watts", offsetof(struct rank_sample, watts)},
                {"mhz", offsetof(struct rank_sample, mhz)},
                {"celsius", offsetof(struct rank_sample, celsius)}};
    bool known = false;

    for (int r = 0; r < t->size; r++)
        known |= t->samples[r].watts >= 0;
    if (!known)
        return;
    begin_record(json, "power");
    json_put_integer(json, "iteration", iteration);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double least = INFINITY, most = 0, total = 0;
        int count = 0;

        for (int r = 0; r < t->size; r++) {
            float value = *(const float *)((const char *)&t->samples[r] + rows[i].offset);

            if (value < 0)
                continue;
            least = fmin(least, (double)value);
            most = fmax(most, (double)value);
            total += (double)value;
            count++;
        }
        if (count == 0)
            continue;
        json_open(json, rows[i].name, '[');
        json_put_fixed(json, NULL, least, 1);
        json_put_fixed(json, NULL, total / count, 1);
        json_put_fixed(json, NULL, most, 1);
        json_close(json);
    }
    end_record(json);
}

/* --- Comparison ------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* The median of the values at 'offset' over the ranks of a stage (-1: all) that know theirs; of
 * two, the lower one, which for times is the faster. */
static double median_of(const struct rank_place *places, const struct rank_sample *samples,
                        int size, int stage, size_t offset)
{
    float *values = xcalloc((size_t)size, sizeof(*values));
    size_t count = 0;
    double median;

    for (int r = 0; r < size; r++) {
        float value = *(const float *)((const char *)&samples[r] + offset);

        if (value >= 0 && (stage < 0 || places[r].stage == stage))
            values[count++] = value;
    }
    if (count > 0)
        qsort(values, count, sizeof(*values), by_value);
    median = count > 0 ? values[(count - 1) / 2] : 0;
    free(values);
    return median;
}

void rank_times_mark(const struct rank_place *places, const struct rank_sample *samples, int size,
                     unsigned char *slow, double *medians)
{
    int known = -1;
    double median = 0;

    for (int r = 0; r < size; r++) {
        double limit = places[r].gpu ? GPU_LIMIT : CPU_LIMIT;

        if (places[r].stage != known) {
            known = places[r].stage;
            median =
                median_of(places, samples, size, known, offsetof(struct rank_sample, milliseconds));
        }
        medians[r] = median;
        if (median > 0 && samples[r].milliseconds > median * (1 + limit))
            slow[r] = slow[r] < 255 ? (unsigned char)(slow[r] + 1) : slow[r];
        else
            slow[r] = 0;
    }
}

const char *rank_times_cause(const struct rank_sample *sample, const struct rank_sample *samples,
                             int size, char *text, size_t length)
{
    const char *reason = gpu_slow_reason(sample->slow_reasons);
    double usual = median_of(NULL, samples, size, -1, offsetof(struct rank_sample, mhz));

    if (sample->xid > 0)
        snprintf(text, length, "its GPU reported Xid %d", sample->xid);
    else if (reason[0])
        snprintf(text, length, "its clocks are lowered by %s", reason);
    else if (sample->mhz > 0 && sample->mhz < 0.95 * usual)
        snprintf(text, length, "its clock is %.0f MHz, the median is %.0f MHz", (double)sample->mhz,
                 usual);
    else if (sample->retransmitted > 1000)
        snprintf(text, length, "its node retransmitted %u TCP segments", sample->retransmitted);
    else
        snprintf(text, length, "unknown; test the node with megatron preflight");
    return text;
}

/* Name the ranks that were slow twice in a row, once until they recover. */
static void report(struct rank_times *t, int64_t iteration, const double *medians,
                   struct json_writer *json)
{
    for (int r = 0; r < t->size; r++) {
        const struct rank_place *place = &t->places[r];
        char cause[128], text[512];

        if (t->slow[r] != IN_A_ROW)
            continue;
        rank_times_cause(&t->samples[r], t->samples, t->size, cause, sizeof(cause));
        snprintf(text, sizeof(text),
                 "straggler: rank %d on %s%s%s takes %.1f ms for a step's passes, the median is "
                 "%.1f ms; likely cause: %s",
                 r, place->host, place->gpus[0] ? ", GPU " : "", place->gpus,
                 (double)t->samples[r].milliseconds, medians[r], cause);
        log_warning("%s", text);
        begin_record(json, "fault");
        json_put_integer(json, "iteration", iteration);
        json_put_string(json, "text", text);
        end_record(json);
    }
}

int rank_times_open(struct rank_times *t, const struct parallel *parallel,
                    const struct world *world, int64_t first, int64_t interval,
                    struct outputs *outputs, struct error *err)
{
    struct comm *comm = parallel->comm;
    size_t count = (size_t)comm->size;
    struct json_writer json = {.stream = NULL};
    struct rank_place mine;

    *t = (struct rank_times){.interval = interval,
                             .next = first + 2, /* the first step loads kernels */
                             .rank = comm->rank,
                             .size = comm->size,
                             .local_rank = (int)world->local_rank,
                             .index = -1,
                             .kernel_log = -1};
    if (interval == 0)
        return 0;
    describe_place(&mine, parallel);
    find_gpu(t, &mine);
    t->retransmitted = read_retransmitted();
    if (t->rank == t->size - 1) {
        t->places = xcalloc(count, sizeof(*t->places));
        t->samples = xcalloc(count, sizeof(*t->samples));
        t->slow = xcalloc(count, sizeof(*t->slow));
    }
    if (comm_host_collect(comm, &mine, t->places, sizeof(mine), t->size - 1, err) < 0)
        return -1;
    if (t->places) {
        write_places(t, &json);
        outputs_records(outputs, &json);
    }
    return 0;
}

void rank_times_close(struct rank_times *t)
{
    nvml_gpus_close(t->nvml);
    if (t->kernel_log > 0)
        close(t->kernel_log);
    free(t->places);
    free(t->samples);
    free(t->slow);
    memset(t, 0, sizeof(*t));
}

int rank_times_due(const struct rank_times *t, int64_t iteration)
{
    return t->interval > 0 && iteration >= t->next;
}

int rank_times_compare(struct rank_times *t, const struct parallel *parallel, int64_t iteration,
                       double seconds, struct outputs *outputs, struct error *err)
{
    struct json_writer json = {.stream = NULL};
    struct rank_sample mine;
    double *medians;

    if (__builtin_add_overflow(iteration, t->interval, &t->next))
        t->next = INT64_MAX;
    take_sample(t, seconds, &mine);
    if (comm_host_collect(parallel->comm, &mine, t->samples, sizeof(mine), t->size - 1, err) < 0)
        return -1;
    if (!t->samples)
        return 0;
    medians = xcalloc((size_t)t->size, sizeof(*medians));
    rank_times_mark(t->places, t->samples, t->size, t->slow, medians);
    if (t->compared++ % (t->size / RANKS_PER_RECORD + 1) == 0)
        write_ranks(t, iteration, &json);
    write_power(t, iteration, &json);
    report(t, iteration, medians, &json);
    outputs_records(outputs, &json);
    free(medians);
    return 0;
}
