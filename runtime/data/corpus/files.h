/* SPDX-License-Identifier: Apache-2.0 */
/* The input files of a corpus, in the order in which they are read. */
#ifndef MEGATRON_CORPUS_FILES_H
#define MEGATRON_CORPUS_FILES_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
#include "source.h"

struct corpus_file {
    char *path;       /* "-" is standard input */
    int64_t size;     /* bytes on disk; 0 for standard input */
    int64_t modified; /* nanoseconds since 1970 */
    enum codec codec;
};

struct wiki_sites;

struct corpus_files {
    struct corpus_file *items;
    size_t count;
    struct wiki_sites *sites; /* of MediaWiki dumps; created by the reader, otherwise NULL */
};

/* Find what the 'count' 'words' name: files, globs, directories (every regular file below them
 * whose name does not begin with a dot), "-" for standard input. The order is that of the words;
 * the files of a glob or a directory are sorted by bytes. Reads the first bytes of each file to
 * detect its codec. A word that matches nothing, a file that cannot be opened and a codec that this
 * build lacks are errors. Output files of a run with 'output_prefix' (may be NULL) are not input:
 * PREFIX.work and PREFIX_*_document.bin and .idx are skipped in directories and globs, and an error
 * if they are named. Caller must clear in both cases. */
int corpus_files_find(struct corpus_files *files, const char *const *words, size_t count,
                      const char *output_prefix, struct error *err);
void corpus_files_clear(struct corpus_files *files);

#endif
