/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron data extract`: the documents of a MediaWiki dump as JSON lines, for people who want to
 * look at them or to filter them. */
#include "config.h"
#include "base/core/option_rows.h"
#include "lib/clock.h"
#include "lib/cpuset.h"
#include "data_common.h"
#include "data/corpus/wiki.h"
#include "base/core/log.h"
#include "data/curate/tools.h"
#include "wiki_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct extract_options {
    struct data_words common;
    struct wiki_words wiki;
};

#define AT(field) offsetof(struct extract_options, field)
static const struct option table[] = {
    HEADING("Input and output"),
    VALUES(
        "input", common.input, "FILE...",
        "dumps: files, globs, directories, or - for standard input; .xml, also .bz2 .gz .xz .zst"),
    BYTES("max-page-bytes", common.max_line, "SIZE", 1024, 1 << 30,
          "longer pages are skipped (default: 64M)"),
    FLAG("strict", common.strict, "stop at the first broken page or file, or unclosed markup"),
    TEXT("output", common.output, "FILE",
         "write FILE, compressed if it ends in .zst (default: standard output)"),
    DATA_OVERWRITE_OPTION(common),
    WIKI_OPTIONS(wiki),
    DATA_WORK_OPTIONS(common),
    {0},
};

static void show_counts(const struct wiki_counts *counts, double seconds)
{
    log_note("%" PRId64 " document%s from %" PRId64
             " bytes of XML in %.3f s (%.1f MB/s); skipped %" PRId64 ", left out %" PRId64
             ", with unclosed markup %" PRId64,
             counts->documents, counts->documents == 1 ? "" : "s", counts->bytes, seconds,
             (double)counts->bytes / seconds / 1e6, wiki_counts_skipped(counts),
             wiki_counts_left_out(counts), wiki_counts_unclosed(counts));
    for (int i = 1; i < FAULT_COUNT; i++)
        if (counts->faults[i] > 0)
            log_note("%s: %" PRId64 " %s%s",
                     i < FAULT_BROKEN_END     ? "skipped"
                     : i < FAULT_LEFT_OUT_END ? "left out"
                                              : "unclosed markup",
                     counts->faults[i], document_fault_text((enum document_fault)i),
                     i == FAULT_LENGTH ? "; raise --max-page-bytes" : "");
}

/* Several ranks would each write all of it. */
static int check_alone(struct error *err)
{
    struct world world;

    if (world_read(&world, err) < 0)
        return -1;
    if (world.size > 1)
        return error_set_code(err, ERROR_USAGE,
                              "%lld ranks cannot write to standard output; use --output to name a "
                              "file, or start one task",
                              (long long)world.size);
    return 0;
}

static int write_standard(const struct extract_options *words, const struct wiki_options *wiki,
                          struct error *err)
{
    const struct data_words *common = &words->common;
    struct corpus_files files = {0};
    struct extract_config config = {.files = &files,
                                    .wiki = *wiki,
                                    .threads =
                                        common->workers ? (int)common->workers : cpuset_usable(),
                                    .strict = common->strict,
                                    .max_page = common->max_line};
    struct wiki_counts counts;
    double begin = clock_now();
    int rc = check_alone(err);

    if (rc == 0)
        rc = corpus_files_find(&files, common->input.items, common->input.count, NULL, err);
    if (rc == 0)
        rc = extract(&config, STDOUT_FILENO, "standard output", &counts, err);
    if (rc == 0)
        rc = wiki_counts_check(&counts, err);
    if (rc == 0)
        show_counts(&counts, clock_now() - begin + 1e-9);
    corpus_files_clear(&files);
    return rc;
}

static int run(void *context, const struct options_result *result, struct error *err)
{
    struct extract_options *words = context;
    struct pages_config config = {.wiki = {0}};

    (void)result;
    if (wiki_words_options(&words->wiki, &config.wiki, err) < 0)
        return -1;
    if (words->common.output && strcmp(words->common.output, "-") != 0)
        return data_words_take(&words->common, "extract", &config.base, err) < 0
                   ? -1
                   : pages_run(&config, err);
    if (data_words_check(&words->common, err) < 0)
        return -1;
    return write_standard(words, &config.wiki, err);
}

const struct command data_extract = {
    .name = "data extract",
    .usage = "Usage: megatron data extract --input FILE... [--output FILE] [OPTION...]\n"
             "Write the pages of MediaWiki dumps as JSON lines: id, revid, url, title, text.\n",
    .options = table,
    .size = sizeof(struct extract_options),
    .defaults =
        &(const struct extract_options){.common = DATA_DEFAULTS, .wiki = WIKI_WORDS_DEFAULT},
    .unexpected = "use --input to name files",
    .run = run,
};
