#include "config.h"
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A link that leads back to a directory above it would be followed for ever. */
enum { DEEPEST = 64 };

static int add_file(struct corpus_files *files, const char *path, const struct stat *status,
                    struct error *err)
{
    struct corpus_file *items, *file;
    int standard = strcmp(path, "-") == 0;

    if ((files->count & (files->count - 1)) == 0) {
        size_t room = files->count ? files->count * 2 : 16;

        items = realloc(files->items, room * sizeof(*items));
        if (!items)
            return error_set(err, "out of memory for the list of %zu input files", files->count);
        files->items = items;
    }
    file = &files->items[files->count];
    memset(file, 0, sizeof(*file));
    file->path = strdup(path);
    if (!file->path)
        return error_set(err, "out of memory for the list of %zu input files", files->count);
    files->count++;
    if (standard) {
        file->codec = CODEC_UNKNOWN;
        return 0;
    }
    file->size = status->st_size;
    file->modified = (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
    return source_probe(path, &file->codec, err);
}

static int add_path(struct corpus_files *files, const char *path, int depth, struct error *err);

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_directory(struct corpus_files *files, const char *path, int depth, struct error *err)
{
    struct dirent **names;
    int count, rc = 0;

    if (depth > DEEPEST)
        return error_set(err, "%s: directories nested deeper than %d; is a link leading back?",
                         path, DEEPEST);
    count = scandir(path, &names, visible, by_bytes);
    if (count < 0)
        return error_set_errno(err, errno, "cannot list directory %s", path);
    for (int i = 0; i < count; i++) {
        char *child = NULL;

        if (rc == 0 && asprintf(&child, "%s/%s", path, names[i]->d_name) < 0) {
            child = NULL;
            rc = error_set(err, "out of memory");
        }
        if (rc == 0)
            rc = add_path(files, child, depth + 1, err);
        free(child);
        free(names[i]);
    }
    free(names);
    return rc;
}

static int add_path(struct corpus_files *files, const char *path, int depth, struct error *err)
{
    struct stat status;

    if (stat(path, &status) < 0) {
        int number = errno;

        /* A link that leads nowhere is no file of a directory. */
        if (depth > 0 && lstat(path, &status) == 0 && S_ISLNK(status.st_mode))
            return 0;
        return error_set_errno(err, number, "cannot read %s", path);
    }
    if (S_ISDIR(status.st_mode))
        return add_directory(files, path, depth, err);
    if (!S_ISREG(status.st_mode) && depth > 0)
        return 0;
    if (!S_ISREG(status.st_mode))
        return error_set(err, "%s is neither a file nor a directory; use --input - for a pipe",
                         path);
    return add_file(files, path, &status, err);
}

static int add_word(struct corpus_files *files, const char *word, struct error *err)
{
    glob_t found;
    struct stat status;
    size_t before = files->count;
    int rc;

    if (strcmp(word, "-") == 0)
        return add_file(files, word, NULL, err);
    /* A file may have a name with brackets in it: what exists is never taken for a pattern. */
    if (stat(word, &status) == 0 || !strpbrk(word, "*?[")) {
        rc = add_path(files, word, 0, err);
        if (rc == 0 && files->count == before)
            return error_set(err, "directory %s holds no files", word);
        return rc;
    }
    rc = glob(word, 0, NULL, &found);
    if (rc == GLOB_NOMATCH)
        return error_set(err, "no file matches %s", word);
    if (rc != 0)
        return error_set(err, "cannot expand %s", word);
    for (size_t i = 0; i < found.gl_pathc && rc == 0; i++)
        rc = add_path(files, found.gl_pathv[i], 1, err);
    globfree(&found);
    if (rc == 0 && files->count == before)
        return error_set(err, "no file matches %s", word);
    return rc;
}

int corpus_files_find(struct corpus_files *files, const char *const *words, size_t count,
                      struct error *err)
{
    memset(files, 0, sizeof(*files));
    for (size_t i = 0; i < count; i++)
        if (add_word(files, words[i], err) < 0)
            return -1;
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(files->items[i].path, "-") == 0 && files->count > 1)
            return error_set(err, "standard input must be the only input");
    return 0;
}

void corpus_files_clear(struct corpus_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->items[i].path);
    free(files->items);
    memset(files, 0, sizeof(*files));
}
