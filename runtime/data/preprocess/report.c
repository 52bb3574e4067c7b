/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "report.h"
#include "lib/clock.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sums {
    int64_t documents, bytes, tokens, skipped, passed;
};

void report_init(struct report *report)
{
    report->begin = report->logged_at = clock_now();
}

/* Ranks share their progress through small files, which nothing else depends on. */
void report_share(struct report *report)
{
    const struct encode_counts *counts = &report->encode->counts;
    char path[DISK_PATH], text[160];
    FILE *file;

    if (report->work->world->size == 1 ||
        disk_path(path, NULL, "%.3900s/progress-%s-%lld", report->work->base, report->work->launch,
                  (long long)report->work->world->rank) < 0)
        return;
    snprintf(text, sizeof(text),
             "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " end\n",
             (int64_t)counts->documents, (int64_t)counts->bytes, (int64_t)counts->tokens,
             (int64_t)counts->skipped, (int64_t)counts->passed);
    file = fopen(path, "we");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

static void add_rank(struct report *report, int64_t rank, struct sums *sums)
{
    char path[DISK_PATH];
    struct file_bytes text;
    struct sums other;

    if (disk_path(path, NULL, "%.3900s/progress-%s-%lld", report->work->base, report->work->launch,
                  (long long)rank) < 0 ||
        disk_read_file(path, 4096, &text, NULL) != 0)
        return;
    if (strstr(text.data, "end") &&
        sscanf(text.data, "%" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64,
               &other.documents, &other.bytes, &other.tokens, &other.skipped, &other.passed) == 5) {
        sums->documents += other.documents;
        sums->bytes += other.bytes;
        sums->tokens += other.tokens;
        sums->skipped += other.skipped;
        sums->passed += other.passed;
    }
    file_bytes_clear(&text);
}

static struct sums collect(struct report *report)
{
    const struct encode_counts *counts = &report->encode->counts;
    struct sums sums = {counts->documents, counts->bytes, counts->tokens, counts->skipped,
                        counts->passed};

    for (int64_t rank = 0; rank < report->work->world->size; rank++)
        if (rank != report->work->world->rank)
            add_rank(report, rank, &sums);
    return sums;
}

static void show_line(struct report *report, const struct sums *sums, double elapsed)
{
    int64_t total = report->plan->input_bytes, passed = sums->passed + report->before_passed;
    double share = total > 0 ? (double)passed / (double)total : 0;
    double left = sums->passed > 0 ? (double)(total - passed) * elapsed / (double)sums->passed : 0;
    long seconds = left > 0 ? (long)left : 0;
    char line[200];

    if (share > 1)
        share = 1;
    snprintf(line, sizeof(line),
             "%5.1f %% | %" PRId64 " documents | %.1f MB/s | %" PRId64
             " skipped | %ld:%02ld:%02ld left",
             100 * share, sums->documents + report->before_documents,
             (double)sums->bytes / elapsed / 1048576, sums->skipped, seconds / 3600,
             seconds / 60 % 60, seconds % 60);
    report->config->progress(line, 1);
    report->line_open = 1;
}

/* Megatron's progress line. */
static void log_line(const struct report *report, int64_t documents, int64_t bytes, double elapsed)
{
    char line[160];

    snprintf(line, sizeof(line), "Processed %" PRId64 " documents (%.6g docs/s, %.6g MB/s).",
             documents, (double)documents / elapsed, (double)bytes / elapsed / 1048576);
    report->config->progress(line, 0);
}

void report_tick(struct report *report)
{
    double now = clock_now(), elapsed = now - report->begin + 1e-9;
    const struct world *world = report->work->world;
    /* With very many ranks even small files add up. */
    double every = world->size > 500 ? (double)world->size / 250 : 1;
    struct sums sums;

    if (world->rank != 0) {
        if (now - report->shared_at >= every) {
            report_share(report);
            report->shared_at = now;
        }
        return;
    }
    if (now - report->logged_at < (report->config->terminal && world->size == 1 ? 0.2 : every))
        return;
    sums = collect(report);
    report->logged_at = now;
    if (report->config->terminal)
        show_line(report, &sums, elapsed);
    else if (sums.documents / report->config->log_interval >
             report->logged / report->config->log_interval)
        log_line(report, sums.documents, sums.bytes, elapsed);
    report->logged = sums.documents;
}

void report_pause(struct report *report)
{
    if (report->line_open)
        report->config->progress("", 0);
    report->line_open = 0;
}

/* Print the sum of several counts and each of them. */
static void show_counts(const struct output_layout *layout, const char *word, int from, int to)
{
    int64_t all = 0;

    for (int i = from; i < to; i++)
        all += layout->faults[i];
    printf("  %s:%*s%" PRId64 "\n", word, 16 - (int)strlen(word), "", all);
    for (int i = from; i < to; i++)
        if (layout->faults[i] > 0)
            printf("    %-14" PRId64 " %s%s%s\n", layout->faults[i],
                   document_fault_text((enum document_fault)i), i == FAULT_LENGTH ? "; " : "",
                   i == FAULT_LENGTH ? "raise --max-line-bytes" : "");
}

static void show_faults(const struct output_layout *layout)
{
    int64_t left_out = 0, unclosed = 0;

    show_counts(layout, "skipped", 1, FAULT_BROKEN_END);
    for (int i = FAULT_BROKEN_END; i < FAULT_LEFT_OUT_END; i++)
        left_out += layout->faults[i];
    if (left_out > 0)
        show_counts(layout, "left out", FAULT_BROKEN_END, FAULT_LEFT_OUT_END);
    for (int i = FAULT_LEFT_OUT_END; i < FAULT_COUNT; i++)
        unclosed += layout->faults[i];
    if (unclosed > 0)
        show_counts(layout, "unclosed markup", FAULT_LEFT_OUT_END, FAULT_COUNT);
}

void report_end(struct report *report, const struct output_layout *layout)
{
    const struct position *end = &layout->cuts[layout->shards];
    double elapsed = clock_now() - report->begin + 1e-9;
    double cores = (double)report->encode->threads * (double)report->work->world->size;
    int64_t tokens = 0;
    struct sums sums = collect(report);

    report_pause(report);
    for (size_t k = 0; k < layout->keys; k++)
        tokens += end->tokens[k];
    log_line(report, end->documents, layout->bytes, elapsed);
    printf("Done: %s\n", report->config->output_prefix);
    printf("  documents:       %" PRId64 "\n", end->documents);
    for (size_t k = 0; k < layout->keys; k++)
        printf("  tokens:          %" PRId64 " in %" PRId64 " sequence%s, %s (%s)\n",
               end->tokens[k], end->sequences[k], end->sequences[k] == 1 ? "" : "s",
               layout->id_size == 2 ? "uint16" : "int32", report->config->keys[k]);
    /* With a maximum number of documents, more input was read than became tokens. */
    if (report->config->max_documents > 0)
        printf("  input:           %" PRId64 " bytes read\n", layout->bytes);
    else
        printf("  input:           %" PRId64 " bytes, %.4f tokens per byte\n", layout->bytes,
               layout->bytes > 0 ? (double)tokens / (double)layout->bytes : 0);
    printf("  time:            %.3f s, %.2f MB/s and %.0f tokens/s per core of %.0f\n", elapsed,
           (double)sums.bytes / elapsed / 1048576 / cores, (double)sums.tokens / elapsed / cores,
           cores);
    show_faults(layout);
    fflush(stdout);
}
