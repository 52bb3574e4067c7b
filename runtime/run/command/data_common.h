/* SPDX-License-Identifier: Apache-2.0 */
/* Options that the actions of `megatron data` have in common. */
#ifndef MEGATRON_DATA_COMMON_H
#define MEGATRON_DATA_COMMON_H

#include "base/core/command.h"
#include "data/jobs/jobs.h"

/* The values of the options. */
struct data_words {
    struct option_list input;
    const char *key, *output, *keep_dropped;
    int strict, overwrite;
    int64_t workers, chunk, lease, max_line;
};

/* clang-format off */
#define DATA_DEFAULTS {.key = "text", .lease = 30, .max_line = 64 << 20}

/* Rows of an option table whose struct 'type' has a struct data_words called 'member'. */
#define DATA_AT(type, member, field) (offsetof(type, member) + offsetof(struct data_words, field))

#define DATA_INPUT_OPTIONS(type, member) \
    {"Input and output", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0}, \
    {"input", OPTION_LIST, DATA_AT(type, member, input), "FILE...", \
     "JSON lines: files, globs or directories; plain or .gz .xz .zst .bz2", NULL, 0, 0}, \
    {"key", OPTION_TEXT, DATA_AT(type, member, key), "KEY", \
     "member that holds the text; a.b is member b of a (default: text)", NULL, 0, 0}, \
    {"max-line-bytes", OPTION_BYTES, DATA_AT(type, member, max_line), "SIZE", \
     "skip longer lines (default: 64M)", NULL, 1024, 1 << 30}, \
    {"strict", OPTION_FLAG, DATA_AT(type, member, strict), NULL, \
     "stop at the first broken line", NULL, 0, 0}

#define DATA_OVERWRITE_OPTION(type, member) \
    {"overwrite", OPTION_FLAG, DATA_AT(type, member, overwrite), NULL, \
     "replace output that exists", NULL, 0, 0}

#define DATA_OUTPUT_OPTIONS(type, member) \
    {"output", OPTION_TEXT, DATA_AT(type, member, output), "FILE", \
     "write this file, .jsonl or .jsonl.zst", NULL, 0, 0}, \
    DATA_OVERWRITE_OPTION(type, member)

#define DATA_DROPPED_OPTION(type, member) \
    {"keep-dropped", OPTION_TEXT, DATA_AT(type, member, keep_dropped), "FILE", \
     "write the dropped documents to FILE, each with the reason", NULL, 0, 0}

#define DATA_WORK_OPTIONS(type, member) \
    {"Work", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0}, \
    {"workers", OPTION_INT, DATA_AT(type, member, workers), "N", \
     "threads per rank (default: the CPUs the rank may use)", NULL, 1, 4096}, \
    {"chunk-bytes", OPTION_BYTES, DATA_AT(type, member, chunk), "SIZE", \
     "input per chunk, the unit of work (default: by the size of the input)", NULL, 1, INT64_MAX}, \
    {"lease", OPTION_INT, DATA_AT(type, member, lease), "SECONDS", \
     "take over work that another rank makes no progress with (default: 30)", NULL, 1, 86400}

#define DATA_END {NULL, OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0}
/* clang-format on */

/* Is there input? Returns 0 or -1. */
int data_words_check(const struct data_words *words, struct error *err);

/* Check the values, and describe them as a run of 'command'. Returns 0 or -1. */
int data_words_take(const struct data_words *words, const char *command,
                    struct jobs_config *config, struct error *err);

/* Does a string such as the value of --output-prefix name the beginning of a file? Returns 0 or -1.
 */
int data_check_prefix(const char *prefix, struct error *err);

extern const struct command data_extract, data_filter, data_dedup, data_decontaminate, data_mix,
    data_merge, data_stats;

#endif
