/* SPDX-License-Identifier: Apache-2.0 */
/* Small corpora for the tests of the dataset: a scratch directory and .bin/.idx files in it. */
#ifndef MEGATRON_TEST_CORPUS_H
#define MEGATRON_TEST_CORPUS_H

#include "data/dataset/idx_format.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch[64];

__attribute__((unused)) static void scratch_make(void)
{
    strcpy(scratch, "/tmp/megatron-test-XXXXXX");
    if (!mkdtemp(scratch)) {
        perror(scratch);
        exit(99);
    }
}

static void scratch_remove_below(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    char name[512];

    if (!directory) {
        unlink(path);
        return;
    }
    while ((entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        if (entry->d_type == DT_DIR)
            scratch_remove_below(name);
        else
            unlink(name);
    }
    closedir(directory);
    rmdir(path);
}

__attribute__((unused)) static void scratch_remove(void)
{
    scratch_remove_below(scratch);
}

__attribute__((unused)) static const char *scratch_path(const char *name)
{
    static char paths[128][128];
    static int turn;
    char *path = paths[turn++ % 128];

    snprintf(path, sizeof(paths[0]), "%s/%s", scratch, name);
    return path;
}

/* The number of entries in a directory, except hidden ones. */
__attribute__((unused)) static int count_names(const char *directory)
{
    DIR *stream = opendir(directory);
    struct dirent *entry;
    int count = 0;

    while (stream && (entry = readdir(stream)))
        count += entry->d_name[0] != '.';
    if (stream)
        closedir(stream);
    return count;
}

__attribute__((unused)) static void write_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");

    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(99);
    }
}

/* Token 't' of all tokens of a corpus: small, and different from its neighbors. */
__attribute__((unused)) static int corpus_token(int64_t t)
{
    return (int)((uint64_t)t * 2654435761u % 251);
}

/* Write PREFIX.bin and PREFIX.idx of 'count' sequences, one per document, with corpus_token()s. */
__attribute__((unused)) static void corpus_write(const char *prefix, int dtype,
                                                 const int32_t *lengths, int64_t count)
{
    size_t size = idx_dtype_size(dtype);
    char path[256];
    unsigned char code = (unsigned char)dtype;
    int64_t at = 0, version = IDX_VERSION, entries = count + 1;
    FILE *idx, *bin;

    snprintf(path, sizeof(path), "%s.idx", prefix);
    idx = fopen(path, "wb");
    snprintf(path, sizeof(path), "%s.bin", prefix);
    bin = fopen(path, "wb");
    if (!idx || !bin) {
        perror(prefix);
        exit(99);
    }
    fwrite(IDX_MAGIC, 1, IDX_MAGIC_SIZE, idx);
    fwrite(&version, 8, 1, idx);
    fwrite(&code, 1, 1, idx);
    fwrite(&count, 8, 1, idx);
    fwrite(&entries, 8, 1, idx);
    fwrite(lengths, 4, (size_t)count, idx);
    for (int64_t i = 0; i < count; i++) {
        int64_t pointer = at * (int64_t)size;

        fwrite(&pointer, 8, 1, idx);
        for (int32_t j = 0; j < lengths[i]; j++) {
            int64_t token = corpus_token(at++);

            fwrite(&token, size, 1, bin);
        }
    }
    for (int64_t i = 0; i <= count; i++)
        fwrite(&i, 8, 1, idx);
    fclose(idx);
    fclose(bin);
}

#endif
