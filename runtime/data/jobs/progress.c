/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "progress.h"
#include "lib/clock.h"
#include "base/core/log.h"
#include "base/core/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double log_seconds = 10;

/* The sum over all ranks of what was read in the phase. */
struct sums {
    int64_t documents, bytes, passed, ranks; /* ranks: those that are running a job */
    double seconds, share, left;             /* left: estimated seconds */
};

int progress_open(struct progress *progress, const struct jobs_config *config,
                  const struct work *work, struct error *err)
{
    int fd;

    progress->config = config;
    progress->work = work;
    progress->terminal = isatty(STDERR_FILENO);
    if (!config->json_progress || work->world->rank != 0)
        return 0;
    fd = open(config->json_progress, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    progress->json = fd < 0 ? NULL : fdopen(fd, "w");
    if (progress->json)
        return 0;
    error_set_errno(err, errno, "--json-progress: cannot write %s", config->json_progress);
    return file_path_error(err);
}

static int share_path(const struct work *work, int64_t rank, char *path)
{
    return disk_path(path, NULL, "%.3900s/progress-%s-%lld", work->base, work->launch,
                     (long long)rank);
}

void progress_share(const struct progress *progress)
{
    char path[DISK_PATH];
    FILE *file;

    if (progress->work->world->size == 1 || !progress->phase ||
        share_path(progress->work, progress->work->world->rank, path) < 0)
        return;
    file = fopen(path, "we");
    if (!file)
        return;
    fprintf(file, "%s %" PRId64 " %" PRId64 " %" PRId64 " %d end\n", progress->phase,
            (int64_t)progress->documents, (int64_t)progress->bytes, (int64_t)progress->passed,
            (int)progress->working);
    fclose(file);
}

static void add_rank(const struct progress *progress, int64_t rank, struct sums *sums)
{
    char path[DISK_PATH], phase[64], end[4];
    struct file_bytes text;
    struct sums other;
    int working;

    if (share_path(progress->work, rank, path) < 0 || disk_read_file(path, 4096, &text, NULL) != 0)
        return;
    if (sscanf(text.data, "%63s %" SCNd64 " %" SCNd64 " %" SCNd64 " %d %3s", phase,
               &other.documents, &other.bytes, &other.passed, &working, end) == 6 &&
        strcmp(end, "end") == 0 && strcmp(phase, progress->phase) == 0) {
        sums->documents += other.documents;
        sums->bytes += other.bytes;
        sums->passed += other.passed;
        sums->ranks += working > 0;
    }
    file_bytes_clear(&text);
}

static struct sums collect(const struct progress *progress, double now)
{
    struct sums sums = {.documents = progress->documents,
                        .bytes = progress->bytes,
                        .passed = progress->passed,
                        .ranks = progress->working > 0,
                        .seconds = now - progress->begin + 1e-9};
    int64_t passed;

    for (int64_t rank = 1; rank < progress->work->world->size; rank++)
        add_rank(progress, rank, &sums);
    passed = sums.passed + progress->before_passed;
    sums.share = progress->total > 0 ? (double)passed / (double)progress->total : 0;
    if (sums.share > 1)
        sums.share = 1;
    if (sums.passed > 0 && passed < progress->total)
        sums.left = (double)(progress->total - passed) * sums.seconds / (double)sums.passed;
    return sums;
}

static void write_json(const struct progress *progress, const char *phase, const struct sums *sums)
{
    fprintf(progress->json,
            "{\"time\": %.3f, \"command\": \"%s\", \"phase\": \"%s\", \"documents\": %" PRId64
            ", \"bytes\": %" PRId64 ", \"bytes_per_second\": %.0f, \"fraction\": %.4f, "
            "\"seconds_left\": %.0f, \"ranks\": %" PRId64 "}\n",
            clock_wall(), progress->config->command, phase,
            sums->documents + progress->before_documents, sums->bytes,
            (double)sums->bytes / sums->seconds, sums->share, sums->left, sums->ranks);
    fflush(progress->json);
}

void progress_close(struct progress *progress, bool success)
{
    progress_end_line(progress);
    if (!progress->json)
        return;
    fprintf(progress->json, "{\"time\": %.3f, \"command\": \"%s\", \"phase\": \"%s\"}\n",
            clock_wall(), progress->config->command, success ? "done" : "failed");
    fclose(progress->json);
}

void progress_begin(struct progress *progress, const char *phase, int64_t total,
                    int64_t before_documents, int64_t before_passed)
{
    progress->phase = phase;
    progress->total = total;
    progress->before_documents = before_documents;
    progress->before_passed = before_passed;
    progress->documents = progress->bytes = progress->passed = 0;
    progress->logged = 0;
    progress->begin = progress->logged_at = progress->shared_at = clock_now();
}

static void show(struct progress *progress, const struct sums *sums)
{
    const struct jobs_config *config = progress->config;
    int64_t documents = sums->documents + progress->before_documents;
    long left = (long)sums->left;
    char line[200], counts[100] = "";

    if (documents > 0)
        snprintf(counts, sizeof(counts), " | %" PRId64 " documents | %.1f MB/s", documents,
                 (double)sums->bytes / sums->seconds / 1048576);
    snprintf(line, sizeof(line), "%s: %5.1f %%%s | %ld:%02ld:%02ld left | %" PRId64 " rank%s",
             progress->phase, 100 * sums->share, counts, left / 3600, left / 60 % 60, left % 60,
             sums->ranks, sums->ranks == 1 ? "" : "s");
    if (progress->terminal)
        fprintf(stderr, "\r%s\033[K", line);
    else
        log_note("%s: %s", config->command, line);
    fflush(stderr);
    progress->line_open = progress->terminal;
}

/* A line as Megatron's tools/preprocess_data.py logs it. */
static void log_documents(const struct sums *sums)
{
    fprintf(stderr, "Processed %" PRId64 " documents (%.6g docs/s, %.6g MB/s).\n", sums->documents,
            (double)sums->documents / sums->seconds, (double)sums->bytes / sums->seconds / 1048576);
    fflush(stderr);
}

void progress_tick(struct progress *progress)
{
    const struct world *world = progress->work->world;
    int64_t interval = progress->config->log_interval;
    double now = clock_now(), every = 1;
    struct sums sums;

    /* With very many ranks even small files add up. */
    if (world->size > 500)
        every = (double)world->size / 250;
    if (!progress->phase)
        return;
    if (world->rank != 0) {
        if (now - progress->shared_at >= every) {
            progress_share(progress);
            progress->shared_at = now;
        }
        return;
    }
    if (progress->terminal && world->size == 1)
        every = 0.2;
    if (now - progress->shown_at < every)
        return;
    progress->shown_at = now;
    sums = collect(progress, now);
    if (progress->json && now - progress->json_at >= 1) {
        write_json(progress, progress->phase, &sums);
        progress->json_at = now;
    }
    if (progress->terminal) {
        show(progress, &sums);
    } else if (interval > 0) {
        if (sums.documents / interval > progress->logged / interval)
            log_documents(&sums);
        progress->logged = sums.documents;
    } else if (now - progress->logged_at >= log_seconds) {
        show(progress, &sums);
        progress->logged_at = now;
    }
}

void progress_end_line(struct progress *progress)
{
    if (progress->line_open)
        fputc('\n', stderr);
    progress->line_open = false;
}
