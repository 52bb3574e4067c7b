/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "base/core/storage.h"
#include "files.h"
#include "base/core/list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A symbolic link to a parent directory would be followed forever. */
enum { DEEPEST = 64 };

/* The identity of a file or directory. */
struct inode {
    dev_t device;
    ino_t number;
};

/* The files found, and the run's own files, sorted by 'struct inode'. */
struct search {
    struct corpus_files *files;
    LIST(struct inode) output;
};

static int compare_inodes(const void *a, const void *b)
{
    const struct inode *left = a, *right = b;

    if (left->device != right->device)
        return left->device < right->device ? -1 : 1;
    return left->number < right->number ? -1 : left->number > right->number;
}

static bool is_output(const struct search *search, const struct stat *status)
{
    struct inode wanted = {status->st_dev, status->st_ino};

    return search->output.count > 0 && bsearch(&wanted, search->output.items, search->output.count,
                                               sizeof(wanted), compare_inodes) != NULL;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), wanted = strlen(end);

    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

/* Is 'name' one of PREFIX.work, PREFIX_*_document.bin and .idx? */
static bool is_output_name(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);

    if (strncmp(name, prefix, length) != 0)
        return false;
    name += length;
    return strcmp(name, ".work") == 0 || (name[0] == '_' && (ends_with(name, "_document.bin") ||
                                                             ends_with(name, "_document.idx")));
}

/* Find the files that earlier runs left under the prefix. The code that writes there reports a
 * directory that cannot be listed. */
static void find_output(struct search *search, const char *prefix)
{
    const char *slash = strrchr(prefix, '/'), *base = slash ? slash + 1 : prefix;
    char *path = slash ? xstrndup(prefix, (size_t)(slash - prefix) + 1) : xstrdup(".");
    DIR *directory = opendir(path);
    struct dirent *entry;
    struct stat status;

    while (directory && (entry = readdir(directory)))
        if (is_output_name(entry->d_name, base) &&
            fstatat(dirfd(directory), entry->d_name, &status, 0) == 0)
            *list_add(&search->output) = (struct inode){status.st_dev, status.st_ino};
    if (directory)
        closedir(directory);
    free(path);
    if (search->output.count > 0)
        qsort(search->output.items, search->output.count, sizeof(struct inode), compare_inodes);
}

static int add_file(struct corpus_files *files, const char *path, const struct stat *status,
                    struct error *err)
{
    struct corpus_file *file = list_add(files);

    *file = (struct corpus_file){.path = xstrdup(path), .codec = CODEC_UNKNOWN};
    if (strcmp(path, "-") == 0)
        return 0;
    file->size = status->st_size;
    file->modified = (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
    return source_probe(path, &file->codec, err);
}

static int add_path(struct search *search, const char *path, int depth, struct error *err);

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_directory(struct search *search, const char *path, int depth, struct error *err)
{
    struct dirent **names;
    int count, rc = 0;

    if (depth > DEEPEST)
        return error_set(err,
                         "%s: directories nested deeper than %d; remove the symbolic link that "
                         "makes a loop, or name the subdirectories",
                         path, DEEPEST);
    count = scandir(path, &names, visible, by_bytes);
    if (count < 0)
        return error_set_errno(err, errno, "cannot list directory %s", path);
    for (int i = 0; i < count; i++) {
        char *child = xasprintf("%s/%s", path, names[i]->d_name);

        if (rc == 0)
            rc = add_path(search, child, depth + 1, err);
        free(child);
        free(names[i]);
    }
    free(names);
    return rc;
}

static int add_path(struct search *search, const char *path, int depth, struct error *err)
{
    struct stat status;

    if (stat(path, &status) < 0) {
        int number = errno;

        /* Dangling links in a directory are ignored. */
        if (depth > 0 && lstat(path, &status) == 0 && S_ISLNK(status.st_mode))
            return 0;
        return error_set_errno(err, number, "cannot read %s", path);
    }
    if (is_output(search, &status)) {
        if (depth > 0)
            return 0;
        error_set(err, "%s is an output file of this run, but also its input", path);
        return error_append(err, "; choose another --output-prefix or --output");
    }
    if (S_ISDIR(status.st_mode))
        return add_directory(search, path, depth, err);
    if (!S_ISREG(status.st_mode) && depth > 0)
        return 0;
    if (!S_ISREG(status.st_mode)) {
        error_set(err, "%s is neither a file nor a directory", path);
        return error_append(err, "; use --input - for a pipe");
    }
    return add_file(search->files, path, &status, err);
}

static int add_word(struct search *search, const char *word, struct error *err)
{
    struct corpus_files *files = search->files;
    glob_t found;
    struct stat status;
    size_t before = files->count;
    int rc;

    if (strcmp(word, "-") == 0)
        return add_file(files, word, NULL, err);
    /* A file name may contain brackets: an existing file is not a pattern. */
    if (stat(word, &status) == 0 || !strpbrk(word, "*?[")) {
        rc = add_path(search, word, 0, err);
        if (rc == 0 && files->count == before)
            return error_set(err, "directory %s contains no files; name one with input files",
                             word);
        return rc;
    }
    rc = glob(word, 0, NULL, &found);
    if (rc == GLOB_NOMATCH)
        return error_set(err, "no file matches %s; check the pattern and its directories", word);
    if (rc != 0)
        return rc == GLOB_NOSPACE
                   ? error_set(err, "out of memory")
                   : error_set(err,
                               "cannot read the directories that %s matches: %s; check permissions",
                               word, strerror(errno));
    for (size_t i = 0; i < found.gl_pathc && rc == 0; i++)
        rc = add_path(search, found.gl_pathv[i], 1, err);
    globfree(&found);
    if (rc == 0 && files->count == before)
        return error_set(err, "no file matches %s; check the pattern and its directories", word);
    return rc;
}

int corpus_files_find(struct corpus_files *files, const char *const *words, size_t count,
                      const char *output_prefix, struct error *err)
{
    struct search search = {.files = files};
    int rc = 0;

    memset(files, 0, sizeof(*files));
    errno = 0;
    if (output_prefix)
        find_output(&search, output_prefix);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = add_word(&search, words[i], err);
    if (rc < 0)
        file_path_error(err);
    list_free(&search.output);
    if (rc < 0)
        return -1;
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(files->items[i].path, "-") == 0 && files->count > 1)
            return error_set_code(
                err, ERROR_USAGE,
                "standard input must be the only input; drop the other files, or the -");
    return 0;
}

void corpus_files_clear(struct corpus_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        free(files->items[i].path);
        free(files->items[i].site);
    }
    list_free(files);
    memset(files, 0, sizeof(*files));
}
