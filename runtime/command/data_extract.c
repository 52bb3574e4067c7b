/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron data extract`: the documents of a MediaWiki dump as JSON lines, for people who want to
 * look at them or to filter them. */
#include "config.h"
#include "data_extract.h"
#include "clock.h"
#include "extract.h"
#include "log.h"
#include "option.h"
#include "wiki_words.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct words {
    struct option_list input;
    const char *output;
    int64_t workers, max_page;
    int strict, overwrite;
    struct wiki_words wiki;
};

#define AT(field) offsetof(struct words, field)

static const struct option table[] = {
    {"Extract", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"input", OPTION_LIST, AT(input), "FILE...",
     "dumps: files, globs, directories, or - for standard input; .xml, also .bz2 .gz .xz .zst",
     NULL, 0, 0},
    {"output", OPTION_TEXT, AT(output), "FILE",
     "write FILE, compressed if it ends in .zst (default: standard output)", NULL, 0, 0},
    {"overwrite", OPTION_FLAG, AT(overwrite), NULL, "replace a FILE that exists", NULL, 0, 0},
    {"workers", OPTION_INT, AT(workers), "N", "threads (default: the CPUs this process may use)",
     NULL, 1, 4096},
    {"max-page-bytes", OPTION_BYTES, AT(max_page), "SIZE",
     "longer pages are skipped (default: 64M)", NULL, 1024, 1 << 30},
    {"strict", OPTION_FLAG, AT(strict), NULL, "stop at the first broken page", NULL, 0, 0},
    WIKI_OPTIONS(struct words, wiki),
    {NULL, OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
};

void data_extract_help(void)
{
    printf("\nUsage: megatron data extract --input FILE... [--output FILE] [OPTION...]\n"
           "Write the pages of MediaWiki dumps as JSON lines: id, revid, url, title, text.\n");
    options_print(table, stdout);
}

static int ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);

    return length > tail && strcmp(text + length - tail, end) == 0;
}

static int cpus(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

static void show_counts(const struct extract_counts *counts, double seconds)
{
    int64_t sums[2] = {0, 0};

    for (int i = 1; i < FAULT_COUNT; i++)
        sums[i >= FAULT_BROKEN_END] += counts->faults[i];
    log_note("%" PRId64 " documents from %" PRId64
             " bytes of XML in %.3f s (%.1f MB/s); skipped %" PRId64 ", left out %" PRId64,
             counts->documents, counts->bytes, seconds, (double)counts->bytes / seconds / 1e6,
             sums[0], sums[1]);
    for (int i = 1; i < FAULT_COUNT; i++)
        if (counts->faults[i] > 0)
            log_note("%s: %" PRId64 " %s%s", i < FAULT_BROKEN_END ? "skipped" : "left out",
                     counts->faults[i], document_fault_text((enum document_fault)i),
                     i == FAULT_LENGTH ? "; raise --max-page-bytes" : "");
}

/* Write to a draft that gets the name at the end. */
static int write_file(const struct words *words, struct extract_config *config,
                      struct extract_counts *counts, struct error *err)
{
    char draft[4096];
    int fd, rc;

    if (!words->overwrite && access(words->output, F_OK) == 0)
        return error_set_code(err, ERROR_USAGE, "%s exists; use --overwrite to replace it",
                              words->output);
    if ((size_t)snprintf(draft, sizeof(draft), "%s.partial", words->output) >= sizeof(draft))
        return error_set_code(err, ERROR_USAGE, "--output is too long a path");
    fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot create %s", draft);
    rc = extract(config, fd, draft, counts, err);
    if (rc == 0 && fsync(fd) < 0)
        rc = error_set_errno(err, errno, "cannot write %s", draft);
    if (close(fd) < 0 && rc == 0)
        rc = error_set_errno(err, errno, "cannot write %s", draft);
    if (rc == 0 && rename(draft, words->output) < 0)
        rc = error_set_errno(err, errno, "cannot rename %s to %s", draft, words->output);
    if (rc < 0)
        unlink(draft);
    return rc;
}

static int run_words(const struct words *words, struct error *err)
{
    struct corpus_files files = {0};
    struct extract_config config = {.files = &files,
                                    .threads = words->workers ? (int)words->workers : cpus(),
                                    .strict = words->strict,
                                    .max_page = words->max_page};
    struct extract_counts counts;
    double begin = clock_now();
    int standard = !words->output || strcmp(words->output, "-") == 0, rc;

    if (words->input.count == 0)
        return error_set_code(err, ERROR_USAGE, "--input is missing: the dumps to read");
    if (wiki_words_options(&words->wiki, &config.wiki, err) < 0)
        return -1;
    config.zstd = !standard && ends_with(words->output, ".zst");
    rc = corpus_files_find(&files, words->input.items, words->input.count, NULL, err);
    if (rc == 0)
        rc = standard ? extract(&config, STDOUT_FILENO, "standard output", &counts, err)
                      : write_file(words, &config, &counts, err);
    if (rc == 0)
        show_counts(&counts, clock_now() - begin + 1e-9);
    corpus_files_clear(&files);
    return rc;
}

int data_extract(int argc, const char *const *argv, struct error *err)
{
    struct words words = {.max_page = 64 << 20, .wiki = WIKI_WORDS_DEFAULT};
    struct options_result result;
    int rc = options_parse(table, &words, argc, argv, &result, err);

    if (rc == 0 && result.help)
        data_extract_help();
    else if (rc == 0 && result.word_count > 0)
        rc = error_set_code(err, ERROR_USAGE,
                            "unexpected argument %.100s; use --input to name dumps",
                            result.words[0]);
    else if (rc == 0)
        rc = run_words(&words, err);
    options_result_clear(&result);
    free(words.input.items);
    return rc;
}
