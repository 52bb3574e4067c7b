/* SPDX-License-Identifier: Apache-2.0 */
/* Replacing the weights of a Hugging Face directory. A reader takes model.safetensors if it exists,
 * otherwise the files that the index lists: either can be exchanged with one system call. */
#include "config.h"

#include "run/checkpoint/directory.h"
#include "base/core/xmalloc.h"
#include "base/core/json_write.h"
#include "lib/file.h"
#include "hf_config.h"
#include "hf_private.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHOLE_NAME   "model.safetensors"
#define CONFIG_JSON  "config.json"
#define INDEX_JSON   "model.safetensors.index.json"
#define CONFIG_LIMIT ((size_t)1 << 24)
#define INDEX_LIMIT  ((size_t)1 << 28)

/* --- Names ----------------------------------------------------------------------------------- */

void hf_file_name(const struct hf_files *files, size_t i, int next, char name[HF_FILE])
{
    if (files->count == 1)
        snprintf(name, HF_FILE, WHOLE_NAME);
    else
        snprintf(name, HF_FILE, "model-%s%05zu-of-%05zu.safetensors", next ? "next-" : "", i + 1,
                 files->count);
}

/* Is this the name of a file of weights that an export could have created, finished or not? */
static int is_ours(const char *name)
{
    static const char *const formats[] = {"model-%5d-of-%5d.safetensors%n",
                                          "model-next-%5d-of-%5d.safetensors%n"};
    size_t length = strlen(name), tail = strlen(".new");
    int number, of, end = 0;

    if (length > tail && strcmp(name + length - tail, ".new") == 0)
        length -= tail;
    if (length == strlen(WHOLE_NAME) && strncmp(name, WHOLE_NAME, length) == 0)
        return 1;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++, end = 0)
        if (sscanf(name, formats[i], &number, &of, &end) == 2 && (size_t)end == length)
            return 1;
    return 0;
}

/* --- The check ------------------------------------------------------------------------------- */

/* Is it what an export of this model in any type would write? Dropout may differ: it is a setting
 * of training, and may have changed since an earlier export. */
static int is_our_config(const char *directory, const struct file_bytes *found,
                         const struct model_config *config, struct error *err)
{
    static const enum device_type types[] = {TYPE_FP32, TYPE_BF16, TYPE_FP16};
    struct model_config other = *config, theirs;
    struct error ignored;
    int same = 0;

    if (hf_config_read(directory, &theirs, &ignored) == 0) {
        other.network.hidden_dropout = theirs.network.hidden_dropout;
        other.network.attention_dropout = theirs.network.attention_dropout;
    }
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && !same; i++) {
        size_t size;
        char *text;

        other.numerics.type = types[i];
        text = hf_config_text(&other, &size, err);
        if (!text)
            return -1;
        same = size == found->length && memcmp(text, found->data, size) == 0;
        free(text);
    }
    return same;
}

static int has_weights(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    int found = 0;

    while (directory && !found && (entry = readdir(directory)))
        found = strcmp(entry->d_name, INDEX_JSON) == 0 ||
                (is_ours(entry->d_name) && !strstr(entry->d_name, ".new"));
    if (directory)
        closedir(directory);
    return found;
}

int hf_files_check(const char *directory, const struct model_config *config, struct error *err)
{
    struct file_bytes found = {0};
    char path[PATH_MAX];
    int ours;

    if (directory_path(path, err, "%s/" CONFIG_JSON, directory) < 0)
        return -1;
    if (access(path, F_OK) == 0) {
        if (file_read(path, CONFIG_LIMIT, &found, err) < 0)
            return -1;
        ours = is_our_config(directory, &found, config, err);
        file_bytes_clear(&found);
    } else {
        ours = !has_weights(directory);
    }
    if (ours != 0)
        return ours < 0 ? -1 : 0;
    return error_set_code(err, ERROR_USAGE,
                          "%s contains weights or a " CONFIG_JSON
                          " that are not an earlier export of this model, and they are not "
                          "replaced; choose another directory, or remove them first",
                          directory);
}

/* --- The index ------------------------------------------------------------------------------- */

struct mapped {
    const char *tensor;
    size_t file;
};

static int by_tensor(const void *a, const void *b)
{
    return strcmp(((const struct mapped *)a)->tensor, ((const struct mapped *)b)->tensor);
}

/* The index of tensors and files, formatted as by transformers. */
static int write_index(const struct hf_files *files, const char *directory, int next,
                       struct error *err)
{
    struct json_writer json = {0};
    char name[HF_FILE];
    size_t count = 0, n = 0;
    struct mapped *map;
    int rc;

    for (size_t i = 0; i < files->count; i++)
        count += files->list[i].layout.count;
    map = xcalloc(count + 1, sizeof(*map));
    for (size_t i = 0; i < files->count; i++)
        for (size_t k = 0; k < files->list[i].layout.count; k++)
            map[n++] = (struct mapped){files->list[i].layout.entries[k].name, i};
    qsort(map, count, sizeof(*map), by_tensor);
    json_open_lines(&json, NULL, '{');
    json_open_lines(&json, "metadata", '{');
    json_put_integer(&json, "total_parameters", files->parameters);
    json_put_integer(&json, "total_size", files->bytes);
    json_close(&json);
    json_open_lines(&json, "weight_map", '{');
    for (size_t i = 0; i < count; i++) {
        hf_file_name(files, map[i].file, next, name);
        json_put_string(&json, map[i].tensor, name);
    }
    json_close(&json);
    json_close(&json);
    json_end_line(&json);
    rc = directory_write(directory, INDEX_JSON, json.data, json.size, err);
    json_writer_clear(&json);
    free(map);
    return rc;
}

/* Does the index in 'directory' list files with the usual names of the new ones? 1, 0 or -1. */
static int index_conflicts(const struct hf_files *files, const char *directory, struct error *err)
{
    struct file_bytes text;
    char path[PATH_MAX], name[HF_FILE + 2];
    int found = 0;

    if (directory_path(path, err, "%s/" INDEX_JSON, directory) < 0)
        return -1;
    if (access(path, F_OK) < 0 && errno == ENOENT)
        return 0;
    if (file_read(path, INDEX_LIMIT, &text, err) < 0)
        return -1;
    for (size_t i = 0; i < files->count && !found; i++) {
        snprintf(name, sizeof(name), "\"%s\"", files->list[i].name);
        found = strstr(text.data, name) != NULL;
    }
    file_bytes_clear(&text);
    return found;
}

/* --- The commit ------------------------------------------------------------------------------ */

/* Give the complete files names that no reader looks for yet, or, if there is only one file, the
 * name that it finds first. */
static int rename_files(const struct hf_files *files, const char *directory, int next,
                        struct error *err)
{
    char from[PATH_MAX], to[PATH_MAX], name[HF_FILE];

    for (size_t i = 0; i < files->count; i++) {
        hf_file_name(files, i, next, name);
        if (directory_path(from, err, "%s/%s.new", directory, files->list[i].name) < 0 ||
            directory_path(to, err, "%s/%s", directory, name) < 0)
            return -1;
        if (rename(from, to) < 0)
            return error_set_errno(err, errno, "cannot rename %s to %s", from, to);
    }
    return file_sync_directory(directory, err);
}

static int remove_one(const char *directory, const char *name, struct error *err)
{
    char path[PATH_MAX];

    if (directory_path(path, err, "%s/%s", directory, name) < 0)
        return -1;
    if (unlink(path) < 0 && errno != ENOENT)
        return error_set_errno(err, errno, "cannot remove %s", path);
    return file_sync_directory(directory, err);
}

/* The new files are in use under other names: link them to the usual names as well. A file system
 * without hard links keeps the other names. */
static int link_usual(const struct hf_files *files, const char *directory)
{
    char from[PATH_MAX], by[PATH_MAX], to[PATH_MAX], name[HF_FILE];

    for (size_t i = 0; i < files->count; i++) {
        hf_file_name(files, i, 1, name);
        if (directory_path(from, NULL, "%s/%s", directory, name) < 0 ||
            directory_path(by, NULL, "%s/%s.new", directory, files->list[i].name) < 0 ||
            directory_path(to, NULL, "%s/%s", directory, files->list[i].name) < 0 ||
            link(from, by) < 0 || rename(by, to) < 0)
            return -1;
    }
    return file_sync_directory(directory, NULL);
}

/* Remove what earlier exports, finished or not, have left. */
static void remove_stale(const struct hf_files *files, const char *path, int next)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    char name[HF_FILE];

    while (directory && (entry = readdir(directory))) {
        int stale = is_ours(entry->d_name);

        for (size_t i = 0; i < files->count && stale; i++) {
            hf_file_name(files, i, next, name);
            stale = strcmp(entry->d_name, name) != 0;
        }
        if (stale)
            unlinkat(dirfd(directory), entry->d_name, 0);
    }
    if (directory)
        closedir(directory);
}

int hf_files_commit(const struct hf_files *files, const char *directory,
                    const struct model_config *config, struct error *err)
{
    size_t size;
    char *text = hf_config_text(config, &size, err);
    int several = files->count > 1, next, rc;

    rc = text ? directory_write(directory, CONFIG_JSON, text, size, err) : -1;
    free(text);
    next = rc == 0 && several ? index_conflicts(files, directory, err) : 0;
    if (rc < 0 || next < 0 || rename_files(files, directory, next, err) < 0)
        return -1;
    if (several && write_index(files, directory, next, err) < 0)
        return -1;
    if (remove_one(directory, several ? WHOLE_NAME : INDEX_JSON, err) < 0)
        return -1;
    /* From here on, a reader of the directory gets the new weights. */
    if (next && link_usual(files, directory) == 0) {
        next = 0;
        if (write_index(files, directory, next, err) < 0)
            return -1;
    }
    remove_stale(files, directory, next);
    return file_sync_directory(directory, err);
}

void hf_files_abandon(const struct hf_files *files, const char *directory)
{
    char path[PATH_MAX];

    for (size_t i = 0; i < files->count; i++)
        if (directory_path(path, NULL, "%s/%s.new", directory, files->list[i].name) == 0)
            unlink(path);
}
