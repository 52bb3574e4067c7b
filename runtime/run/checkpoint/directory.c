/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "directory.h"
#include "base/core/xmalloc.h"
#include "lib/file.h"
#include "base/core/storage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Suffix of a checkpoint that is being replaced. */
#define OLDER ".tmp-older"

/* Highest number that is tried for a name. */
enum { NAMES = 1000 };

int directory_path(char out[PATH_MAX], struct error *err, const char *format, ...)
{
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(out, PATH_MAX, format, args);
    va_end(args);
    if (length < 0 || length >= PATH_MAX)
        return error_set(err, "path too long: %.60s...; use a shorter one", out);
    return 0;
}

int directory_prepare(const char *path, struct error *err)
{
    char probe[PATH_MAX];
    int fd;

    if (file_make_directories(path, 0777) < 0) {
        error_set_errno(err, errno, "cannot create the directory %s", path);
        return file_path_error(err);
    }
    if (directory_path(probe, err, "%s/.probe-XXXXXX", path) < 0)
        return -1;
    fd = mkstemp(probe);
    if (fd < 0) {
        error_set_errno(err, errno, "cannot write to %s", path);
        return file_path_error(err);
    }
    close(fd);
    unlink(probe);
    return 0;
}

int directory_has(const char *path, const char *name)
{
    char file[PATH_MAX];

    return directory_path(file, NULL, "%s/%s", path, name) == 0 && access(file, F_OK) == 0;
}

/* The iteration in LATEST; -1: no such file, or not a number. Returns 0, or -1 with errno if it
 * cannot be determined. */
static int read_latest(const char *path, int64_t *iteration, struct error *err)
{
    char name[PATH_MAX];
    long long number = -1;
    FILE *file;
    int failed = 0;

    *iteration = -1;
    if (directory_path(name, err, "%s/" LATEST, path) < 0) {
        errno = ENAMETOOLONG;
        return -1;
    }
    file = fopen(name, "re");
    if (!file && errno == ENOENT)
        return 0;
    if (!file) {
        failed = errno;
    } else {
        errno = 0;
        if (fscanf(file, "%18lld", &number) == 1 && number >= 0)
            *iteration = number;
        else if (ferror(file))
            failed = errno ? errno : EIO;
        fclose(file);
    }
    if (!failed)
        return 0;
    error_set_errno(err, failed, "cannot read %s", name);
    errno = failed;
    return -1;
}

int64_t directory_latest(const char *path)
{
    int64_t iteration;

    return read_latest(path, &iteration, NULL) < 0 ? -1 : iteration;
}

static int newer(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

/* The iteration in a name like "iter_0000100", or -1. */
static int64_t iteration_of(const char *name)
{
    char *end;
    long long iteration;

    if (strncmp(name, "iter_", 5) != 0 || strlen(name) < 12 || strlen(name) > 23)
        return -1;
    for (const char *c = name + 5; *c; c++)
        if (*c < '0' || *c > '9')
            return -1;
    iteration = strtoll(name + 5, &end, 10);
    return iteration;
}

int directory_list(const char *path, int64_t **list, size_t *count, struct error *err)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    int failed;

    *list = NULL;
    *count = 0;
    if (!directory) {
        failed = errno;
        goto fail;
    }
    while (errno = 0, (entry = readdir(directory))) {
        int64_t iteration = iteration_of(entry->d_name);

        if (iteration < 0)
            continue;
        *list = xrealloc(*list, *count + 1, sizeof(**list));
        (*list)[(*count)++] = iteration;
    }
    failed = errno;
    closedir(directory);
    if (failed)
        goto fail;
    if (*count > 1)
        qsort(*list, *count, sizeof(**list), newer);
    return 0;
fail:
    free(*list);
    *list = NULL;
    *count = 0;
    error_set_errno(err, failed, "cannot read %s", path);
    errno = failed;
    return -1;
}

int directory_newest(const char *path, int64_t below, int64_t *iteration, struct error *err)
{
    int64_t *list;
    size_t count;

    *iteration = -1;
    if (below < 0 && read_latest(path, iteration, err) < 0)
        return -1;
    if (*iteration >= 0)
        return 0;
    if (directory_list(path, &list, &count, err) < 0)
        return errno == ENOENT ? 0 : -1;
    for (size_t i = 0; i < count && *iteration < 0; i++)
        if (below < 0 || list[i] < below)
            *iteration = list[i];
    free(list);
    return 0;
}

int directory_write(const char *path, const char *name, const void *bytes, size_t size,
                    struct error *err)
{
    char file[PATH_MAX];

    if (directory_path(file, err, "%s/%s", path, name) < 0)
        return -1;
    return file_write_whole(file, bytes, size, FILE_SINGLE_WRITER | FILE_SYNC_DIRECTORY, err);
}

/* Rename 'temporary' to 'final'. An existing checkpoint of that name is exchanged with it
 * atomically, so that there always is one; 'replaces' is then set. */
static int take_name(const char *temporary, const char *final, int *replaces, struct error *err)
{
    char older[PATH_MAX];

    *replaces = 0;
    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, final, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno == EEXIST && renameat2(AT_FDCWD, temporary, AT_FDCWD, final, RENAME_EXCHANGE) == 0) {
        *replaces = 1;
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS && errno != EEXIST)
        return error_set_errno(err, errno, "cannot rename %s", temporary);
    /* File systems without atomic exchange: rename one after the other. */
    if (directory_path(older, err, "%s" OLDER, final) < 0)
        return -1;
    *replaces = rename(final, older) == 0;
    if (rename(temporary, final) < 0) {
        error_set_errno(err, errno, "cannot rename %s", temporary);
        if (*replaces)
            rename(older, final);
        return -1;
    }
    if (*replaces)
        rename(older, temporary);
    return 0;
}

/* Make LATEST in 'path' name 'iteration'. */
static int name_latest(const char *path, int64_t iteration, struct error *err)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64 "\n", iteration);
    return directory_write(path, LATEST, text, strlen(text), err);
}

int directory_commit(const char *path, const char *temporary, int64_t iteration,
                     atomic_int_fast64_t *moved, struct error *err)
{
    char final[PATH_MAX];
    struct error ignored;
    int replaces;

    if (directory_path(final, err, "%s/iter_%07" PRId64, path, iteration) < 0 ||
        file_sync_directory(temporary, err) < 0)
        return -1;
    moved_count(moved);
    if (take_name(temporary, final, &replaces, err) < 0 || file_sync_directory(path, err) < 0)
        return -1;
    moved_count(moved);
    if (name_latest(path, iteration, err) < 0)
        return -1;
    moved_count(moved);
    /* What cannot be removed is tried again at the next start. */
    if (replaces)
        directory_remove(temporary, moved, &ignored);
    return 0;
}

/* Rename 'from' to 'to', which is not the name of a checkpoint. 1, 0 if another process was faster,
 * or -1. */
static int move_away(const char *from, char to[PATH_MAX], struct error *err)
{
    for (int i = 0; i < NAMES; i++) {
        if (directory_path(to, err, "%s.tmp-removed-%d", from, i) < 0)
            return -1;
        if (rename(from, to) == 0)
            return 1;
        if (errno != EEXIST && errno != ENOTEMPTY)
            break;
    }
    return errno == ENOENT ? 0 : error_set_errno(err, errno, "cannot remove %s", from);
}

/* Remove one checkpoint. 1, 0 if another process was faster, or -1; 'removed' counts it even if
 * some of its files remain, because it is no longer a checkpoint. */
static int prune_one(const char *path, int64_t iteration, int *removed, atomic_int_fast64_t *moved,
                     struct error *err)
{
    char name[PATH_MAX], away[PATH_MAX];
    int rc;

    if (directory_path(name, err, "%s/iter_%07" PRId64, path, iteration) < 0)
        return -1;
    rc = move_away(name, away, err);
    if (rc <= 0)
        return rc;
    if (removed)
        ++*removed;
    return directory_remove(away, moved, err) < 0 ? -1 : 1;
}

int directory_prune(const char *path, int64_t keep, int *removed, atomic_int_fast64_t *moved,
                    struct error *err)
{
    int64_t *list, latest;
    size_t count, first = 0;
    int rc = 0;

    if (removed)
        *removed = 0;
    if (read_latest(path, &latest, err) < 0 || directory_list(path, &list, &count, err) < 0)
        return -1;
    while (latest >= 0 && first < count && list[first] > latest)
        first++;
    /* If one cannot be removed, remove the others. */
    for (size_t i = first; i < count; i++)
        if (i - first >= (size_t)keep &&
            prune_one(path, list[i], removed, moved, rc < 0 ? NULL : err) < 0)
            rc = -1;
    free(list);
    return rc;
}

/* Create path/abandoned-1, or the first free number. */
static int make_abandoned(const char *path, char name[PATH_MAX], struct error *err)
{
    for (int i = 1; i <= NAMES; i++) {
        if (directory_path(name, err, "%s/abandoned-%d", path, i) < 0)
            return -1;
        if (mkdir(name, 0777) == 0)
            return 0;
        if (errno != EEXIST)
            break;
    }
    return error_set_errno(err, errno, "cannot create %s", name);
}

static int move_one(const char *path, const char *to, int64_t iteration, struct error *err)
{
    char from[PATH_MAX], name[PATH_MAX];

    if (directory_path(from, err, "%s/iter_%07" PRId64, path, iteration) < 0 ||
        directory_path(name, err, "%s/iter_%07" PRId64, to, iteration) < 0)
        return -1;
    return rename(from, name) < 0 ? error_set_errno(err, errno, "cannot rename %s", from) : 0;
}

int directory_abandon(const char *path, int64_t iteration, char to[PATH_MAX], struct error *err)
{
    int64_t *list;
    size_t count;
    int rc;

    to[0] = '\0';
    if (directory_list(path, &list, &count, err) < 0)
        return -1;
    /* From now on the run resumes from the iteration it went back to, even if this is interrupted.
     */
    rc = name_latest(path, iteration, err);
    if (rc == 0 && count > 0 && list[0] > iteration) {
        rc = make_abandoned(path, to, err);
        if (rc == 0)
            rc = name_latest(to, list[0], err);
    }
    for (size_t i = 0; i < count && list[i] > iteration && rc == 0; i++)
        rc = move_one(path, to, list[i], err);
    free(list);
    if (rc == 0 && to[0])
        rc = file_sync_directory(to, err);
    return rc < 0 ? -1 : file_sync_directory(path, err);
}

int directory_restore(const char *path, struct error *err)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    int rc = 0;

    if (!directory)
        return error_set_errno(err, errno, "cannot open %s", path);
    while ((entry = readdir(directory))) {
        size_t length = strlen(entry->d_name), tail = strlen(OLDER);
        char name[sizeof(entry->d_name)];

        if (length <= tail || strcmp(entry->d_name + length - tail, OLDER) != 0)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(length - tail), entry->d_name);
        if (iteration_of(name) < 0 || faccessat(dirfd(directory), name, F_OK, 0) == 0)
            continue;
        if (renameat(dirfd(directory), entry->d_name, dirfd(directory), name) < 0)
            rc = error_set_errno(
                err, errno,
                "cannot restore checkpoint %s/%s, which an interrupted save had renamed to %s",
                path, name, entry->d_name);
    }
    closedir(directory);
    return rc < 0 ? -1 : file_sync_directory(path, err);
}

/* Is 'name' a temporary directory of a checkpoint, as saving, replacing, importing, exporting and
 * removing name them? */
static int is_temporary(const char *name)
{
    static const char *const kinds[] = {"removed-", "import-", "export-"};
    static const char digits[] = "0123456789", mark[] = ".tmp-";
    const char *tail = strstr(name, mark);
    char iteration[NAME_MAX + 1];
    size_t length;

    if (!tail)
        return 0;
    snprintf(iteration, sizeof(iteration), "%.*s", (int)(tail - name), name);
    if (iteration_of(iteration) < 0)
        return 0;
    if (strcmp(tail, OLDER) == 0)
        return 1;
    tail += strlen(mark);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strncmp(tail, kinds[i], strlen(kinds[i])) == 0) {
            tail += strlen(kinds[i]);
            return *tail && tail[strspn(tail, digits)] == '\0';
        }
    length = strspn(tail, "0123456789abcdef");
    return length >= 1 && length <= 16 && tail[length] == '\0';
}

int directory_clean(const char *path, struct error *err)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    int rc = 0;

    if (!directory)
        return error_set_errno(err, errno, "cannot open %s", path);
    while ((entry = readdir(directory))) {
        struct error *first = rc < 0 ? NULL : err;
        char name[PATH_MAX];

        if (!is_temporary(entry->d_name))
            continue;
        if (directory_path(name, first, "%s/%s", path, entry->d_name) < 0 ||
            directory_remove(name, NULL, first) < 0)
            rc = -1;
    }
    closedir(directory);
    return rc;
}

int directory_check_megatron(const char *directory, struct error *err)
{
    static const char *const marks[] = {"mp_rank_00", "mp_rank_00_000", "metadata.json"};
    int64_t newest;
    char step[32] = "release", name[64];
    const char *const places[] = {step, "."}; /* 'directory' may be that of one iteration */

    if (directory_newest(directory, -1, &newest, NULL) == 0 && newest >= 0)
        snprintf(step, sizeof(step), "iter_%07" PRId64, newest);
    for (size_t i = 0; i < 2 * sizeof(marks) / sizeof(marks[0]); i++) {
        const char *mark = marks[i / 2];

        snprintf(name, sizeof(name), "%s/%s", places[i % 2], mark);
        if (directory_has(directory, name)) {
            error_set_code(err, ERROR_USAGE, "%s contains a Megatron-LM checkpoint%s", directory,
                           strcmp(mark, "metadata.json") == 0 ? " (torch_dist)" : "");
            return error_append(
                err, "; import it first: megatron checkpoint import SOURCE DIR --format megatron");
        }
    }
    return 0;
}
