/* SPDX-License-Identifier: Apache-2.0 */
/* Options that the actions of `megatron data` have in common. */
#ifndef MEGATRON_DATA_COMMON_H
#define MEGATRON_DATA_COMMON_H

#include "base/core/command.h"
#include "base/core/option_rows.h"
#include "data/jobs/jobs.h"

/* The values of the options. */
struct data_words {
    struct option_list input;
    const char *key, *output, *keep_dropped, *json_progress;
    int strict, overwrite;
    int64_t workers, chunk, lease, max_line;
};

#define DATA_DEFAULTS                                    \
    {                                                    \
        .key = "text", .lease = 30, .max_line = 64 << 20 \
    }

/* Rows of an option table (option_rows.h) whose target has a struct data_words called 'member'. */
#define DATA_INPUT_OPTIONS(member)                                                     \
    HEADING("Input and output"),                                                       \
        VALUES("input", member.input, "FILE...",                                       \
               "JSON lines: files, globs or directories; plain or .gz .xz .zst .bz2"), \
        TEXT("key", member.key, "KEY",                                                 \
             "member that holds the text; a.b is member b of a (default: text)"),      \
        BYTES("max-line-bytes", member.max_line, "SIZE", 1024, 1 << 30,                \
              "skip longer lines (default: 64M)"),                                     \
        FLAG("strict", member.strict, "stop at the first broken line")
#define DATA_OVERWRITE_OPTION(member) \
    FLAG("overwrite", member.overwrite, "replace output that exists")
#define DATA_OUTPUT_OPTIONS(member)                                                 \
    TEXT("output", member.output, "FILE", "write this file, .jsonl or .jsonl.zst"), \
        DATA_OVERWRITE_OPTION(member)
#define DATA_DROPPED_OPTION(member)                   \
    TEXT("keep-dropped", member.keep_dropped, "FILE", \
         "write the dropped documents to FILE, each with the reason")
#define DATA_WORK_OPTIONS(member)                                                       \
    HEADING("Work"),                                                                    \
        RANGE("workers", member.workers, 1, 4096,                                       \
              "threads per rank (default: the CPUs the rank may use)"),                 \
        BYTES("chunk-bytes", member.chunk, "SIZE", 1, INT64_MAX,                        \
              "input per chunk, the unit of work (default: by the size of the input)"), \
        NUMBER("lease", member.lease, "SECONDS", 1, 86400,                              \
               "take over work that another rank makes no progress with"),              \
        TEXT("json-progress", member.json_progress, "FILE",                             \
             "write progress to FILE, a JSON object per second")

/* Is there input? Returns 0 or -1. */
int data_words_check(const struct data_words *words, struct error *err);

/* Check the values, and describe them as a run of 'command'. Returns 0 or -1. */
int data_words_take(const struct data_words *words, const char *command, struct jobs_config *config,
                    struct error *err);

/* Does a string such as the value of --output-prefix name the beginning of a file? Returns 0 or -1.
 */
int data_check_prefix(const char *prefix, struct error *err);

extern const struct command data_extract, data_filter, data_dedup, data_decontaminate, data_mix,
    data_merge, data_stats;

#endif
