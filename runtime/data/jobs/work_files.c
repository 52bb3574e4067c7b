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

static int is_self_or_parent(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* NFS clients rename open files like this when they are removed. */
static bool is_nfs(const char *name)
{
    return strncmp(name, ".nfs", 4) == 0;
}

/* Is this the end of a name, or the suffix of a temporary file of file_write_whole? */
static bool is_end(const char *name)
{
    size_t length = strlen(name);

    return length == 0 || (name[0] == '.' && length > 4 && strcmp(name + length - 4, ".tmp") == 0);
}

/* Parse a prefix, an id, a number. Return what follows, or NULL. */
static const char *skip_text(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);

    return name && strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

static const char *skip_id(const char *name)
{
    return name && strspn(name, "0123456789abcdef") >= ID_LENGTH ? name + ID_LENGTH : NULL;
}

static const char *skip_number(const char *name)
{
    size_t length = name ? strspn(name, "0123456789") : 0;

    return length > 0 ? name + length : NULL;
}

bool work_files_is_plan(const char *name)
{
    const char *end = skip_id(name);

    return end && *end == '\0';
}

bool work_files_is_removed(const char *name)
{
    const char *end = skip_id(skip_text(skip_id(skip_text(name, ".removed-")), "-"));

    return end && *end == '\0';
}

/* The launch id in the name of a draft, claim or progress file; NULL for other names. */
static const char *launch_of(const char *name)
{
    static const char *const kinds[] = {"draft-", "claim-", "progress-"};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const char *id = skip_text(name, kinds[i]);

        if (skip_text(skip_id(id), "-"))
            return id;
    }
    return NULL;
}

bool work_files_is_leftover(const char *name, const char *launch)
{
    const char *id = launch_of(name);

    return id && strncmp(id, launch, ID_LENGTH) != 0;
}

bool work_files_is_file(const char *name)
{
    static const char *const single[] = {"plan", "owner", "finished"};
    static const char *const words[] = {"go-", "end-"};
    const char *end;

    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++)
        if ((end = skip_text(name, single[i])) && is_end(end))
            return true;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if ((end = skip_id(skip_text(name, words[i]))) && is_end(end))
            return true;
    end = skip_number(skip_text(skip_id(skip_text(name, "ack-")), "-"));
    return (end && is_end(end)) || is_nfs(name);
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

/* Names in the directory of a run, and in that of a phase (jobs.h). */
static bool is_run_file(const char *name)
{
    return skip_text(name, "out-") || launch_of(name) || is_nfs(name);
}

static bool is_phase(const char *name)
{
    return name[0] != '\0' && name[strspn(name, "abcdefghijklmnopqrstuvwxyz-")] == '\0';
}

static bool is_phase_file(const char *name)
{
    const char *end = skip_number(
        skip_text(skip_number(skip_text(skip_number(skip_text(name, "done-")), "-")), "-"));
    size_t word = strspn(name, "abcdefghijklmnopqrstuvwxyz");

    if (!end && word > 0)
        end = skip_number(skip_text(name + word, "-"));
    return (end && is_end(end)) || launch_of(name) || is_nfs(name);
}

/* The files and directories that a directory may contain, and the level below. */
struct level {
    bool (*file)(const char *name);
    bool (*directory)(const char *name);
    const struct level *next;
};

static bool is_nothing(const char *name)
{
    (void)name;
    return false;
}

static bool is_plan_or_removed(const char *name)
{
    return work_files_is_plan(name) || work_files_is_removed(name);
}

static const struct level phase_level = {is_phase_file, is_nothing, NULL};
static const struct level plan_level = {is_run_file, is_phase, &phase_level};
static const struct level root_level = {work_files_is_file, is_plan_or_removed, &plan_level};

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
        if (S_ISDIR(mode) && level->directory(name))
            rc = check_level(root, child, level->next, err);
        else if (!S_ISREG(mode) || !level->file(name))
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
        if (level->directory(name) && S_ISDIR(entry_mode(child, entry)))
            remove_level(child, level->next);
        else if (level->file(name))
            unlink(child);
    }
    if (directory)
        closedir(directory);
    rmdir(path);
}

void work_files_remove_plan(const char *path)
{
    remove_level(path, &plan_level);
}
