/* SPDX-License-Identifier: Apache-2.0 */
/* --yaml-cfg: options in a file, as Megatron-LM has them. The part of YAML that such files use:
 * "key: value" with sections by indentation, comments, quotes, lists "[a, b]" and "- a". */
#ifndef MEGATRON_YAML_CONFIG_H
#define MEGATRON_YAML_CONFIG_H

#include <stddef.h>

#include "base/core/option.h"

/* Words of a command line; all owned. */
struct yaml_words {
    char **items;
    size_t count;
    char unknown[1024]; /* keys that are not options, each after a space */
};

/* Append to 'words' the options that 'text' (of the file 'path', for errors) sets. Keys are options
 * of 'table' with '_' for '-'; null leaves an option out. Keys that are not options are collected.
 * Returns 0, or -1 with code ERROR_USAGE. The caller clears 'words' in both cases. */
int yaml_parse(const char *path, const char *text, const struct option *table,
               struct yaml_words *words, struct error *err);

/* The options, separated by '|', of which an option needs one to have an effect; NULL: none. */
typedef const char *yaml_needs(const char *option);

/* Replace the words "--yaml-cfg FILE" of a command line by the options of the file, placed first,
 * so that those of the command line override them. Those without effect are left out. 'words' owns
 * what '*argv' then contains. */
int yaml_expand(const struct option *table, yaml_needs *needs, int *argc, const char *const **argv,
                struct yaml_words *words, const char ***expanded, struct error *err);
void yaml_words_clear(struct yaml_words *words);

#endif
