/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "work_files.h"
#include "disk.h"
#include "input_plan.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An identity or a launch: 16 hexadecimal digits. */
enum { ID_LENGTH = 16 };

/* Names as patterns: # is a number, @ an identity or a launch, % a word of small letters and
 * hyphens, * any rest. */
static const char *const root_files[] = {"plan",  "owner",   "finished", "go-@",
                                         "end-@", "ack-@-#", 0};
static const char *const root_directories[] = {"@", ".removed-@-@", 0};
static const char *const run_files[] = {"out-*", "progress-@-#", 0};
static const char *const run_directories[] = {"%", 0};
static const char *const phase_files[] = {"done-#-#-#", "claim-@-#-#", "draft-@-*", "%#", 0};
static const char *const none[] = {0};

static int is_self_or_parent(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Is this the end of a name, or the suffix of a temporary file of file_write_whole? */
static bool is_end(const char *name)
{
    size_t length = strlen(name);

    return length == 0 || (name[0] == '.' && length > 4 && strcmp(name + length - 4, ".tmp") == 0);
}

static bool matches(const char *name, const char *pattern)
{
    for (; *pattern; pattern++) {
        size_t length = *name == *pattern;

        if (*pattern == '*')
            return true;
        if (*pattern == '#')
            length = strspn(name, "0123456789");
        else if (*pattern == '%')
            length = strspn(name, "abcdefghijklmnopqrstuvwxyz-");
        else if (*pattern == '@')
            length = strspn(name, "0123456789abcdef") >= ID_LENGTH ? ID_LENGTH : 0;
        if (length == 0)
            return false;
        name += length;
    }
    return is_end(name);
}

static bool is_one_of(const char *name, const char *const *patterns)
{
    for (; *patterns; patterns++)
        if (matches(name, *patterns))
            return true;
    return false;
}

bool work_files_is_plan(const char *name)
{
    return matches(name, "@");
}

bool work_files_is_removed(const char *name)
{
    return matches(name, ".removed-@-@");
}

bool work_files_is_leftover(const char *name, const char *launch)
{
    static const char *const of_launch[] = {"draft-@-*", "claim-@-*", "progress-@-*", 0};

    return is_one_of(name, of_launch) && strncmp(strchr(name, '-') + 1, launch, ID_LENGTH) != 0;
}

/* NFS clients rename open files to .nfs* when they are removed. */
static bool is_file(const char *name, const char *const *patterns)
{
    return is_one_of(name, patterns) || strncmp(name, ".nfs", 4) == 0;
}

bool work_files_is_file(const char *name)
{
    return is_file(name, root_files);
}

/* A user's file may have one of these names, so check the content. Returns 1 if no run has written
 * it, 0 if one may have, or -1 if it cannot be read. */
static int is_foreign(const char *root, const char *name, struct error *err)
{
    static const struct {
        const char *name;
        off_t size; /* 0: a plan */
    } files[] = {{"plan", 0}, {"owner", ID_LENGTH}, {"finished", sizeof(uint64_t)}};
    struct stat status;
    char path[DISK_PATH];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (strcmp(name, files[i].name) == 0 &&
            disk_path(path, NULL, "%.3000s/%s", root, name) == 0 && lstat(path, &status) == 0 &&
            status.st_size > 0) {
            int same =
                files[i].size > 0 ? status.st_size == files[i].size : input_plan_is(path, err);

            return same < 0 ? -1 : !same;
        }
    return 0;
}

/* The files and directories that a directory may contain, and the level below. */
struct level {
    const char *const *files, *const *directories;
    const struct level *next;
};

static const struct level phase_level = {phase_files, none, NULL};
static const struct level run_level = {run_files, run_directories, &phase_level};
static const struct level root_level = {root_files, root_directories, &run_level};

/* The mode of an entry; 0 if it is gone. */
static mode_t entry_mode(const char *path, const struct dirent *entry)
{
    struct stat status;

    if (entry->d_type != DT_UNKNOWN)
        return DTTOIF(entry->d_type);
    return lstat(path, &status) == 0 ? status.st_mode : 0;
}

static int set_foreign(struct error *err, const char *root, const char *what)
{
    error_set_code(err, ERROR_USAGE, "%.300s is needed for intermediate results, but %s", root,
                   what);
    return error_append(err, "; move it away, or %s", "choose another --output-prefix or --output");
}

static int set_foreign_file(struct error *err, const char *root, const char *path)
{
    char what[400];

    snprintf(what, sizeof(what), "contains %.300s, which no run has written",
             path + strlen(root) + 1);
    return set_foreign(err, root, what);
}

static int check_level(const char *root, const char *path, const struct level *level,
                       struct error *err)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    char child[DISK_PATH];
    int rc = 0;

    if (!directory)
        return errno == ENOENT ? 0 : error_set_errno(err, errno, "cannot read directory %s", path);
    while (rc == 0 && (entry = readdir(directory))) {
        const char *name = entry->d_name;
        mode_t mode;

        if (is_self_or_parent(name))
            continue;
        rc = disk_path(child, err, "%.3000s/%s", path, name);
        mode = rc == 0 ? entry_mode(child, entry) : 0;
        if (mode == 0)
            continue;
        if (S_ISDIR(mode) && is_one_of(name, level->directories))
            rc = check_level(root, child, level->next, err);
        else if (!S_ISREG(mode) || !is_file(name, level->files))
            rc = set_foreign_file(err, root, child);
        else if (level == &root_level && (rc = is_foreign(root, name, err)) > 0)
            rc = set_foreign_file(err, root, child);
    }
    closedir(directory);
    return rc;
}

int work_files_check_root(const char *root, struct error *err)
{
    struct stat status;

    if (lstat(root, &status) < 0 || S_ISDIR(status.st_mode))
        return 0;
    return set_foreign(err, root,
                       S_ISLNK(status.st_mode) ? "is a symbolic link" : "is not a directory");
}

int work_files_check(const char *root, struct error *err)
{
    char path[DISK_PATH];

    /* The plan first: it tells whether the names are those of another build. */
    if (work_files_check_root(root, err) < 0 || disk_path(path, err, "%.4000s/plan", root) < 0 ||
        input_plan_is(path, err) < 0)
        return -1;
    return check_level(root, root, &root_level, err);
}

static void remove_level(const char *path, const struct level *level)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    char child[DISK_PATH];

    while (directory && (entry = readdir(directory))) {
        const char *name = entry->d_name;

        if (is_self_or_parent(name) || disk_path(child, NULL, "%.3000s/%s", path, name) < 0)
            continue;
        if (is_one_of(name, level->directories) && S_ISDIR(entry_mode(child, entry)))
            remove_level(child, level->next);
        else if (is_file(name, level->files))
            unlink(child);
    }
    if (directory)
        closedir(directory);
    rmdir(path);
}

void work_files_remove_plan(const char *path)
{
    remove_level(path, &run_level);
}
