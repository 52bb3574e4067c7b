/* The input files of a corpus: what the user named, in the order in which it is read. */
#ifndef MEGATRON_CORPUS_FILES_H
#define MEGATRON_CORPUS_FILES_H

#include <stddef.h>
#include <stdint.h>
#include "error.h"
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
    struct wiki_sites *sites; /* of MediaWiki dumps; made by whoever reads them, else NULL */
};

/* Find what the 'count' 'words' name: files, globs, directories (every file below them whose name
 * does not begin with a dot, what is no file passed over), "-" for standard input. The order is the
 * words' own; what a glob or a directory stands for is sorted by bytes. Reads the first bytes of
 * each file to know its codec. A word that names nothing, a file that cannot be opened and one
 * whose codec is not in this build are errors. What a run with 'output_prefix' (may be NULL) writes
 * is no input of it: PREFIX.work and PREFIX_*_document.bin and .idx are passed over in directories
 * and globs, and an error where they are named. Caller must clear in both cases. */
int corpus_files_find(struct corpus_files *files, const char *const *words, size_t count,
                      const char *output_prefix, struct error *err);
void corpus_files_clear(struct corpus_files *files);

#endif
