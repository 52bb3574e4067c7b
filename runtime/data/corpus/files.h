/* SPDX-License-Identifier: Apache-2.0 */
/* The input files of a corpus, in reading order.
 *
 *     struct corpus_files files = {0};
 *
 *     rc = corpus_files_find(&files, inputs, input_count, output_prefix, &err);
 *     for (size_t i = 0; rc == 0 && i < files.count; i++)
 *         use(files.items[i].path);
 *     corpus_files_clear(&files); */
#ifndef MEGATRON_CORPUS_FILES_H
#define MEGATRON_CORPUS_FILES_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
#include "source.h"

struct corpus_file {
    char *path;       /* "-" is standard input */
    int64_t size;     /* size on disk; 0 for standard input */
    int64_t modified; /* nanoseconds since 1970 */
    enum codec codec;
    struct wiki_site *site; /* of a MediaWiki dump, once its start has been read */
};

struct corpus_files {
    struct corpus_file *items;
    size_t count, room;
};

/* Find the files that 'count' 'words' name: files, globs, directories (every regular file below
 * them whose name does not begin with a dot), or "-" for standard input. The order is that of the
 * words; the files of a glob or directory are sorted by bytes. Reads the first bytes of each file
 * to detect its codec. Fails if a word matches nothing, a file cannot be opened, or this build
 * lacks a codec. Output files of a run with 'output_prefix' (may be NULL) are not input:
 * PREFIX.work and PREFIX_*_document.bin and .idx are skipped in directories and globs, and are an
 * error if they are named. The caller must clear 'files' also on error. */
int corpus_files_find(struct corpus_files *files, const char *const *words, size_t count,
                      const char *output_prefix, struct error *err);
void corpus_files_clear(struct corpus_files *files);

#endif
