/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "pages.h"
#include "lib/clock.h"
#include "kept.h"
#include "base/core/log.h"
#include "data/corpus/wiki.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The state of a job. Warnings go into the job's result, so that they are reported once and in
 * order, whichever ranks read the chunk and however often. */
struct paging {
    struct job *job;
    const struct wiki_counts *counts;
    struct kept kept;
    struct sentences {
        struct bytes text;
        uint64_t count;
    } warnings, unclosed, flaws;
};

static int take_lines(void *context, struct wiki_span lines, struct error *err)
{
    struct paging *paging = context;
    struct job *job = paging->job;

    job_progress(job, paging->counts->documents - job->documents,
                 paging->counts->bytes - job->bytes, 0);
    return lines_put(paging->kept.out, lines.data, lines.size, err);
}

static void add_sentence(struct sentences *sentences, const char *sentence)
{
    sentences->count++;
    bytes_put_text(&sentences->text, sentence);
}

static void warn(void *context, const char *sentence)
{
    struct paging *paging = context;

    if (paging->warnings.count < WIKI_LINES_SHOWN)
        add_sentence(&paging->warnings, sentence);
}

static void tell_unclosed(void *context, const char *sentence)
{
    struct paging *paging = context;

    if (paging->unclosed.count < WIKI_LINES_SHOWN)
        add_sentence(&paging->unclosed, sentence);
}

static void tell_flaw(void *context, const char *sentence)
{
    add_sentence(&((struct paging *)context)->flaws, sentence);
}

static void put_sentences(struct bytes *result, struct sentences *sentences)
{
    bytes_put_u64(result, sentences->count);
    bytes_put(result, sentences->text.data, sentences->text.size);
    bytes_clear(&sentences->text);
}

static int pages_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    const struct pages_config *config = context;
    const struct input_plan *plan = &job->engine->plan;
    size_t first = plan->chunks[job->number];
    struct wiki_counts counts = {0};
    struct paging paging = {.job = job, .counts = &counts};
    struct wiki_lines lines = {.files = &plan->files,
                               .segments = plan->segments + first,
                               .count = plan->chunks[job->number + 1] - first,
                               .wiki = &config->wiki,
                               .max_page = (size_t)config->base.max_line,
                               .strict = config->base.strict,
                               .take = take_lines,
                               .warn = warn,
                               .unclosed = tell_unclosed,
                               .flaw = tell_flaw,
                               .context = &paging};
    int rc = kept_begin(&paging.kept, job, err);

    if (rc == 0)
        rc = wiki_lines_read(&lines, &counts, err);
    rc = kept_end(&paging.kept, rc, result, err);
    bytes_put(result, &counts, sizeof(counts));
    put_sentences(result, &paging.warnings);
    put_sentences(result, &paging.unclosed);
    put_sentences(result, &paging.flaws);
    return rc;
}

/* Print up to 'limit' warnings of one chunk. Returns their number. */
static int64_t show_sentences(struct bytes *bytes, int64_t limit)
{
    int64_t shown = 0;

    for (uint64_t count = bytes_take_u64(bytes); count > 0 && !bytes->failed; count--) {
        char *sentence = bytes_take_text(bytes);

        if (sentence && shown < limit) {
            log_warning("%s", sentence);
            shown++;
        }
        free(sentence);
    }
    return shown;
}

/* Sum the counts of all chunks and print their warnings. */
static int collect(struct jobs *engine, struct wiki_counts *sum, struct error *err)
{
    int64_t shown = 0, shown_unclosed = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < engine->plan.chunk_count; i++) {
        struct bytes bytes;
        struct kept_result kept;
        const void *data;

        rc = jobs_result(engine, KEPT_PHASE, i, &bytes, err);
        if (rc < 0)
            break;
        kept_take(&kept, &bytes);
        data = bytes_take(&bytes, sizeof(*sum));
        if (data) {
            struct wiki_counts counts;

            memcpy(&counts, data, sizeof(counts));
            wiki_counts_add(sum, &counts);
            shown += show_sentences(&bytes, WIKI_LINES_SHOWN - shown);
            shown_unclosed += show_sentences(&bytes, WIKI_LINES_SHOWN - shown_unclosed);
            show_sentences(&bytes, INT64_MAX);
        }
        bytes_clear(&bytes);
    }
    return rc;
}

static void print_faults(const struct wiki_counts *counts, int begin, int end)
{
    for (int i = begin; i < end; i++)
        if (counts->faults[i] > 0)
            printf("    %-12" PRId64 " %s%s%s\n", counts->faults[i],
                   document_fault_text((enum document_fault)i), i == FAULT_LENGTH ? "; " : "",
                   i == FAULT_LENGTH ? "raise --max-page-bytes" : "");
}

static int finish(struct jobs *engine, void *context, struct error *err)
{
    const struct pages_config *config = context;
    struct wiki_counts sum = {0};
    double seconds = clock_now() - engine->begin + 1e-9;
    char amount[AMOUNT_SIZE];

    if (collect(engine, &sum, err) < 0 || wiki_counts_check(&sum, err) < 0 ||
        kept_publish(engine, err) < 0)
        return -1;
    printf("Done: %s\n", config->base.output);
    printf("  documents:       %" PRId64 " (from %s of XML)\n", sum.documents,
           amount_words((double)sum.bytes, amount));
    printf("  skipped:         %" PRId64 "\n", wiki_counts_skipped(&sum));
    print_faults(&sum, 1, FAULT_BROKEN_END);
    printf("  left out:        %" PRId64 "\n", wiki_counts_left_out(&sum));
    print_faults(&sum, FAULT_BROKEN_END, FAULT_LEFT_OUT_END);
    if (wiki_counts_unclosed(&sum) > 0)
        printf("  unclosed markup: %" PRId64 "\n", wiki_counts_unclosed(&sum));
    print_faults(&sum, FAULT_LEFT_OUT_END, FAULT_COUNT);
    printf("  time:            %.1f s, %.1f MB/s of XML\n", seconds,
           (double)sum.bytes / 1e6 / seconds);
    fflush(stdout);
    return 0;
}

static int body(struct jobs *engine, void *context, struct error *err)
{
    return kept_run(engine, pages_job, finish, context, err);
}

int pages_run(struct pages_config *config, struct error *err)
{
    struct bytes identity = {0};
    int rc;

    config->base.mode = RECORD_PAGE;
    input_plan_put_wiki(&identity, &config->wiki);
    rc = jobs_run(&config->base, &identity, body, config, err);
    bytes_clear(&identity);
    return rc;
}
