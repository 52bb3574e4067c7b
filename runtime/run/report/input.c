/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "base/core/storage.h"
#include "input.h"
#include "reader.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_wanted(const char *name)
{
    static const char *const endings[] = {".log", ".out", ".err", ".jsonl"};
    size_t length = strlen(name);

    if (name[0] == '.')
        return 0;
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
        if (length > strlen(endings[i]) &&
            strcmp(name + length - strlen(endings[i]), endings[i]) == 0)
            return 1;
    return 0;
}

static int wanted(const struct dirent *entry)
{
    return is_wanted(entry->d_name);
}

static bool is_file(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* By the first bytes of gzip, xz and Zstandard. */
static bool is_compressed(const char *path)
{
    static const char *const marks[] = {"\x1f\x8b", "\xfd\x37zXZ", "\x28\xb5\x2f\xfd"};
    char start[8] = "";
    FILE *file = fopen(path, "re");

    if (!file)
        return 0;
    if (fread(start, 1, sizeof(start) - 1, file) == 0)
        start[0] = '\0';
    fclose(file);
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (strncmp(start, marks[i], strlen(marks[i])) == 0)
            return 1;
    return 0;
}

static int read_one(struct input *input, struct group *group, const char *path, const char *output,
                    struct error *err)
{
    if (output && file_is_same(path, output))
        return error_set_code(err, ERROR_USAGE,
                              "%s would be replaced by the report; choose another output file",
                              path);
    if (is_file(path) && is_compressed(path)) {
        notes_add(&input->notes, "%s is compressed and is not read; decompress it first", path);
        return 0;
    }
    reader_file(path, &group->attempts, &group->extras, &input->notes);
    return 0;
}

static int read_directory(struct input *input, struct group *group, const char *path,
                          const char *output, struct error *err)
{
    struct dirent **entries;
    int count = scandir(path, &entries, wanted, versionsort), rc = 0, read = 0;

    if (count < 0)
        return error_set_errno(err, errno, "cannot read %s", path);
    for (int i = 0; i < count; i++) {
        char file[PATH_MAX];

        snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
        free(entries[i]);
        if (rc < 0 || !is_file(file))
            continue;
        rc = read_one(input, group, file, output, err);
        read++;
    }
    free(entries);
    if (rc == 0 && read == 0)
        notes_add(&input->notes,
                  "%s contains no log (*.log, *.out, *.err) and no metrics file (*.jsonl); name a "
                  "directory or files of a training run",
                  path);
    return rc;
}

static struct group *add_group(struct input *input)
{
    struct group *group = list_add(&input->groups);

    *group = (struct group){0};
    return group;
}

/* The last part of a path, for the name of a run. */
static void base_name(const char *path, char *name, size_t size)
{
    char whole[PATH_MAX];
    size_t length;

    if (!realpath(path, whole))
        snprintf(whole, sizeof(whole), "%s", path);
    length = strlen(whole);
    while (length > 1 && whole[length - 1] == '/')
        whole[--length] = '\0';
    snprintf(name, size, "%s", strrchr(whole, '/') ? strrchr(whole, '/') + 1 : whole);
}

static void finish_group(struct input *input, struct group *group, const char *path, double peak)
{
    char name[PATH_MAX];

    base_name(path, name, sizeof(name));
    group->first = input->runs.count;
    runs_arrange(&input->runs, &group->attempts, name, peak, &input->notes);
    group->count = input->runs.count - group->first;
}

/* All files named on the command line are one run, unless they are to be separate. */
static int read_files(struct input *input, const struct input_options *o, struct error *err)
{
    struct group *group = NULL;
    const char *first = NULL;

    for (size_t i = 0; i < o->word_count; i++) {
        struct stat status;

        if (stat(o->words[i], &status) == 0 && S_ISDIR(status.st_mode))
            continue;
        if (!group)
            group = add_group(input);
        first = first ? first : o->words[i];
        if (read_one(input, group, o->words[i], o->output, err) < 0)
            return -1;
        if (o->separate) {
            finish_group(input, group, first, o->peak);
            group = NULL;
            first = NULL;
        }
    }
    if (group)
        finish_group(input, group, first, o->peak);
    return 0;
}

static int read_directories(struct input *input, const struct input_options *o, struct error *err)
{
    for (size_t i = 0; i < o->word_count; i++) {
        struct stat status;
        struct group *group;

        if (stat(o->words[i], &status) < 0 || !S_ISDIR(status.st_mode))
            continue;
        group = add_group(input);
        if (read_directory(input, group, o->words[i], o->output, err) < 0)
            return -1;
        finish_group(input, group, o->words[i], o->peak);
    }
    return 0;
}

static void set_names(struct input *input, const struct input_options *o)
{
    for (size_t i = 0; i < o->name_count && i < input->runs.count; i++)
        attempt_text(&input->runs.items[i].name, o->names[i]);
    if (o->name_count > input->runs.count)
        notes_add(&input->notes, "%zu names were given, but there are only %zu runs; %s",
                  o->name_count, input->runs.count, "use --name once per run");
}

int input_read(struct input *input, const struct input_options *o, struct error *err)
{
    memset(input, 0, sizeof(*input));
    if (read_directories(input, o, err) < 0 || read_files(input, o, err) < 0)
        return -1;
    if (input->runs.count == 0)
        return error_set_code(err, ERROR_USAGE, "%s",
                              input->notes.count > 0
                                  ? input->notes.items[0]
                                  : "these files contain no steps of a training run; name logs or "
                                    "metrics of megatron train or Megatron-LM");
    for (; input->runs.count > MOST_RUNS; input->runs.count--) {
        if (input->runs.count == MOST_RUNS + 1)
            notes_add(&input->notes,
                      "only the first %d runs are shown; name fewer runs to see the others",
                      MOST_RUNS);
        free(input->runs.items[input->runs.count - 1].name);
        free(input->runs.items[input->runs.count - 1].attempts);
    }
    for (size_t i = 0; i < input->groups.count; i++)
        if (input->groups.items[i].first >= input->runs.count)
            input->groups.items[i].count = 0;
    set_names(input, o);
    return 0;
}

void input_clear(struct input *input)
{
    runs_clear(&input->runs);
    for (size_t i = 0; i < input->groups.count; i++) {
        attempts_clear(&input->groups.items[i].attempts);
        extras_clear(&input->groups.items[i].extras);
    }
    list_free(&input->groups);
    notes_clear(&input->notes);
    memset(input, 0, sizeof(*input));
}
