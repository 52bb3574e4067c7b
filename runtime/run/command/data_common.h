/* SPDX-License-Identifier: Apache-2.0 */
/* Options that the commands of `megatron data` have in common. */
#ifndef MEGATRON_DATA_COMMON_H
#define MEGATRON_DATA_COMMON_H

#include "data/jobs/jobs.h"
#include "base/core/option.h"

/* What the user gave. */
struct data_words {
    struct option_list input;
    const char *key, *output, *keep_dropped;
    int strict, overwrite;
    int64_t workers, chunk, lease, max_line;
};

#define DATA_AT(type, member, field) (offsetof(type, member) + offsetof(struct data_words, field))

#define DATA_INPUT_OPTIONS(type, member)                                        \
    {"Input and output", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},            \
        {"input",                                                               \
         OPTION_LIST,                                                           \
         DATA_AT(type, member, input),                                          \
         "FILE...",                                                             \
         "JSON lines: files, globs or directories; plain or .gz .xz .zst .bz2", \
         NULL,                                                                  \
         0,                                                                     \
         0},                                                                    \
        {"key",                                                                 \
         OPTION_TEXT,                                                           \
         DATA_AT(type, member, key),                                            \
         "KEY",                                                                 \
         "member that holds the text; a.b is member b of a (default: text)",    \
         NULL,                                                                  \
         0,                                                                     \
         0},                                                                    \
        {"max-line-bytes",                                                      \
         OPTION_BYTES,                                                          \
         DATA_AT(type, member, max_line),                                       \
         "SIZE",                                                                \
         "skip longer lines (default: 64M)",                                    \
         NULL,                                                                  \
         1024,                                                                  \
         1 << 30},                                                              \
    {                                                                           \
        "strict", OPTION_FLAG, DATA_AT(type, member, strict), NULL,             \
            "stop at the first broken line", NULL, 0, 0                         \
    }

#define DATA_OUTPUT_OPTIONS(type, member)                                 \
    {"output",                                                            \
     OPTION_TEXT,                                                         \
     DATA_AT(type, member, output),                                       \
     "FILE",                                                              \
     "write this file, .jsonl or .jsonl.zst",                             \
     NULL,                                                                \
     0,                                                                   \
     0},                                                                  \
    {                                                                     \
        "overwrite", OPTION_FLAG, DATA_AT(type, member, overwrite), NULL, \
            "replace output that exists", NULL, 0, 0                      \
    }

#define DATA_DROPPED_OPTION(type, member)                                           \
    {                                                                               \
        "keep-dropped", OPTION_TEXT, DATA_AT(type, member, keep_dropped), "FILE",   \
            "write the dropped documents to FILE, each with the reason", NULL, 0, 0 \
    }

#define DATA_WORK_OPTIONS(type, member)                                                       \
    {"Work", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},                                      \
        {"workers",                                                                           \
         OPTION_INT,                                                                          \
         DATA_AT(type, member, workers),                                                      \
         "N",                                                                                 \
         "threads per rank (default: the CPUs the rank may use)",                             \
         NULL,                                                                                \
         1,                                                                                   \
         4096},                                                                               \
        {"chunk-bytes",                                                                       \
         OPTION_BYTES,                                                                        \
         DATA_AT(type, member, chunk),                                                        \
         "SIZE",                                                                              \
         "input per chunk, the unit of work (default: by the size of the input)",             \
         NULL,                                                                                \
         1,                                                                                   \
         INT64_MAX},                                                                          \
    {                                                                                         \
        "lease", OPTION_INT, DATA_AT(type, member, lease), "SECONDS",                         \
            "take over work that another rank makes no progress with (default: 30)", NULL, 1, \
            86400                                                                             \
    }

#define DATA_END                                        \
    {                                                   \
        NULL, OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0 \
    }

/* The defaults of 'words'; what was given, checked, as a configuration of 'command'; what is freed.
 */
void data_words_init(struct data_words *words);
/* Only that there is input, and nothing that is not an option. */
int data_words_check(const struct data_words *words, const struct options_result *result,
                     struct error *err);
int data_words_take(const struct data_words *words, const struct options_result *result,
                    const char *command, struct jobs_config *config, struct error *err);
void data_words_clear(struct data_words *words);

/* One command: its name behind `megatron data`, and what runs with the words after it. */
struct data_command {
    const char *name;
    const char *usage; /* of --help: "--input FILE... --output FILE [OPTION...]" */
    const char *summary;
    const struct option *table;
    size_t size; /* of the struct that the table fills */
    void (*init)(void *words);
    int (*run)(void *words, const struct options_result *result, struct error *err);
    void (*clear)(void *words);
};

extern const struct data_command data_extract, data_filter, data_dedup, data_decontaminate,
    data_mix, data_merge, data_stats;

/* The command of that name, or NULL. */
const struct data_command *data_command_find(const char *name);
int data_command_run(const struct data_command *command, int argc, const char *const *argv,
                     struct error *err);

#endif
