/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "filter.h"
#include "fasttext.h"
#include "kept.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct filter {
    const struct filter_config *config;
    struct fasttext *model;
};

/* Counts besides the tally and the kept documents, as kept_sum adds them up. */
struct filter_counts {
    int64_t dropped[RULE_COUNT];
    int64_t lines[RULE_COUNT]; /* removed from documents */
    int64_t citations, edited;
    struct pii_counts pii;
};

/* The state of a job. */
struct filtering {
    const struct filter *filter;
    struct rule_scratch rules;
    struct fasttext_scratch *language;
    struct line_buffer masked;
    struct kept kept;
    struct filter_counts counts;
};

static bool is_wanted(const struct filter_config *config, const char *label, double probability)
{
    if (!label || probability < config->rules.value[RULE_LANGUAGE])
        return false;
    for (size_t i = 0; i < config->language_count; i++)
        if (strcmp(config->languages[i], label) == 0)
            return true;
    return config->language_count == 0;
}

static int drop(struct filtering *filtering, const struct document *document, int rule,
                const char *extra, struct error *err)
{
    filtering->counts.dropped[rule]++;
    return kept_drop(&filtering->kept, document, rule_table[rule].name, extra, err);
}

static int each(void *context, const struct document *document, struct error *err)
{
    struct filtering *filtering = context;
    const struct filter_config *config = filtering->filter->config;
    struct verdict verdict;
    char extra[160] = "";

    if (filtering->filter->model) {
        double probability;
        const char *label = fasttext_predict(filtering->filter->model, filtering->language,
                                             document->text, document->size, &probability);

        if (config->add_language || config->base.keep_dropped)
            snprintf(extra, sizeof(extra), ",\"language\":\"%.64s\",\"language_score\":%.4f",
                     label ? label : "", probability);
        if (!is_wanted(config, label, probability))
            return drop(filtering, document, RULE_LANGUAGE, extra, err);
    }
    rules_apply(&config->rules, &filtering->rules, document->text, document->size, &verdict);
    if (verdict.rule != RULE_NONE)
        return drop(filtering, document, verdict.rule, NULL, err);
    if (pii_mask(&config->pii, verdict.text, verdict.size, &filtering->masked,
                 &filtering->counts.pii) > 0) {
        verdict.text = filtering->masked.data;
        verdict.size = filtering->masked.size;
        verdict.edited = 1;
    }
    filtering->counts.edited += verdict.edited;
    return kept_keep(&filtering->kept, document, verdict.edited ? verdict.text : NULL, verdict.size,
                     config->add_language ? extra : NULL, err);
}

static int filter_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    struct filtering filtering = {.filter = context};
    struct tally tally = {0};
    int rc = kept_begin(&filtering.kept, job, err);

    if (filtering.filter->model)
        filtering.language = fasttext_scratch_create(filtering.filter->model);
    if (rc == 0)
        rc = documents_each(job, job->number, &tally, each, &filtering, err);
    rc = kept_end(&filtering.kept, rc, result, err);
    for (int i = 0; i < RULE_COUNT; i++)
        filtering.counts.lines[i] = filtering.rules.lines_removed[i];
    filtering.counts.citations = filtering.rules.citations;
    tally_put(&tally, result);
    bytes_put(result, &filtering.counts, sizeof(filtering.counts));
    rule_scratch_clear(&filtering.rules);
    fasttext_scratch_destroy(filtering.language);
    line_buffer_clear(&filtering.masked);
    return rc;
}

static void print_rule(int64_t count, int rule, const struct rules *rules)
{
    char help[160];

    /* Help texts contain at most one %g. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(help, sizeof(help), rule_table[rule].help, rules->value[rule]);
#pragma GCC diagnostic pop
    printf("    %-12" PRId64 " %-30s %s\n", count, rule_table[rule].name, help);
}

static void print_counts(const struct filter_config *config, const struct filter_counts *counts)
{
    int64_t dropped = 0, lines = 0;

    for (int i = 0; i < RULE_COUNT; i++) {
        dropped += counts->dropped[i];
        lines += counts->lines[i];
    }
    printf("  dropped:         %" PRId64 "\n", dropped);
    for (int i = 0; i < RULE_COUNT; i++)
        if (counts->dropped[i] > 0)
            print_rule(counts->dropped[i], i, &config->rules);
    if (lines > 0)
        printf("  lines removed:   %" PRId64 "\n", lines);
    for (int i = 0; i < RULE_COUNT; i++)
        if (counts->lines[i] > 0)
            print_rule(counts->lines[i], i, &config->rules);
    if (counts->citations > 0)
        printf("  citations:       %" PRId64 " removed\n", counts->citations);
    if (config->pii.email || config->pii.address)
        printf("  masked:          %" PRId64 " e-mail addresses, %" PRId64 " IP addresses\n",
               counts->pii.emails, counts->pii.addresses);
    printf("  texts edited:    %" PRId64 "\n", counts->edited);
}

static int finish(struct jobs *engine, void *context, struct error *err)
{
    const struct filter *filter = context;
    struct filter_counts sum = {{0}, {0}, 0, 0, {0, 0}};
    struct kept_result all = {0, 0, 0, 0};
    struct tally tally = {0};

    if (kept_sum(engine, &all, &tally, (int64_t *)&sum, sizeof(sum) / sizeof(int64_t), err) < 0)
        return -1;
    if (documents_check(engine, &tally, err) < 0 || kept_publish(engine, err) < 0)
        return -1;
    documents_warn(engine, &tally);
    printf("Done: %s\n", filter->config->base.output);
    tally_print(&tally);
    print_counts(filter->config, &sum);
    kept_print(engine, &all, &tally);
    return 0;
}

static int body(struct jobs *engine, void *context, struct error *err)
{
    return kept_run(engine, filter_job, finish, context, err);
}

/* A language that the model lacks would drop everything. */
static int check_languages(const struct filter *filter, struct error *err)
{
    for (size_t i = 0; i < filter->config->language_count; i++) {
        size_t k = 0, count = fasttext_labels(filter->model);

        while (k < count && strcmp(fasttext_label(filter->model, k), filter->config->languages[i]))
            k++;
        if (k == count) {
            error_set_code(err, ERROR_USAGE, "%s has no language \"%.50s\" among its %zu",
                           filter->config->model, filter->config->languages[i], count);
            return error_append(err, "; correct --languages");
        }
    }
    return 0;
}

int filter_run(struct filter_config *config, struct error *err)
{
    struct filter filter = {.config = config};
    struct bytes identity = {0};
    int rc = 0;

    if (config->model) {
        filter.model = fasttext_open(config->model, err);
        if (!filter.model) {
            err->code = ERROR_USAGE;
            return -1;
        }
        rc = check_languages(&filter, err);
    }
    bytes_put(&identity, config->rules.on, sizeof(config->rules.on));
    bytes_put(&identity, config->rules.value, sizeof(config->rules.value));
    bytes_put_text(&identity, config->model);
    for (size_t i = 0; i < config->language_count; i++)
        bytes_put_text(&identity, config->languages[i]);
    bytes_put_u64(&identity, (uint64_t)config->add_language);
    bytes_put_text(&identity, config->pii.email);
    bytes_put_text(&identity, config->pii.address);
    if (rc == 0)
        rc = jobs_run(&config->base, &identity, body, &filter, err);
    bytes_clear(&identity);
    fasttext_close(filter.model);
    return rc;
}
