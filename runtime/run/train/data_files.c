/* SPDX-License-Identifier: Apache-2.0 */
#include "data_files.h"
#include "lib/file.h"
#include "base/core/json.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 256 << 20 };

static const char spaces[] = " \t\r\n";

/* Append a copy of a word. */
static int add(struct option_list *list, const char *word, size_t length, struct error *err)
{
    const char **items = realloc(list->items, (list->count + 1) * sizeof(*items));
    char *copy = items ? strndup(word, length) : NULL;

    if (items)
        list->items = items;
    if (!copy)
        return error_set(err, "out of memory");
    list->items[list->count++] = copy;
    return 0;
}

static int add_words(struct option_list *list, const char *text, struct error *err)
{
    for (text += strspn(text, spaces); *text; text += strspn(text, spaces)) {
        size_t length = strcspn(text, spaces);

        if (add(list, text, length, err) < 0)
            return -1;
        text += length;
    }
    return 0;
}

static int read_list(struct arguments *a, struct error *err)
{
    struct file_bytes bytes = {0};
    int rc;

    if (file_read(a->data.data_args_path, MOST_BYTES, &bytes, err) < 0)
        return -1;
    rc = add_words(&a->data.data_path, bytes.data, err);
    file_bytes_clear(&bytes);
    if (rc == 0 && a->data.data_path.count == 0)
        return error_set_code(err, ERROR_USAGE,
                              "%s names no datasets; it must list PREFIX or WEIGHT PREFIX",
                              a->data.data_args_path);
    return rc;
}

/* An element is a prefix or a weight, which may be a number. */
static int add_element(struct option_list *list, struct json_value value, struct error *err)
{
    char number[40];
    const char *text;
    size_t length;
    double real;

    if (json_string(value, &text, &length) == 0)
        return add(list, text, length, err);
    if (json_real(value, &real) < 0)
        return error_set_code(
            err, ERROR_USAGE,
            "each element of the list must be a path or a weight; correct the file");
    snprintf(number, sizeof(number), "%.17g", real);
    return add(list, number, strlen(number), err);
}

static int add_split(struct option_list *list, struct json_value value, struct error *err)
{
    struct json_iterator at;
    struct json_value element;
    const char *text;
    size_t length;

    if (json_type(value) == JSON_NULL)
        return 0;
    if (json_string(value, &text, &length) == 0)
        return add_words(list, text, err);
    if (json_type(value) != JSON_ARRAY || json_iterate(value, &at) < 0)
        return error_set_code(err, ERROR_USAGE,
                              "it must be a list of weights and paths, as in [\"0.3\", \"a\", "
                              "\"0.7\", \"b\"]; correct the file");
    while (json_next(&at, NULL, NULL, &element))
        if (add_element(list, element, err) < 0)
            return -1;
    return 0;
}

/* A misspelled name would be a split without data. */
static int check_names(struct json_value root, struct error *err)
{
    struct json_iterator at;
    struct json_value value;
    const char *name;
    size_t length;

    if (json_type(root) != JSON_OBJECT || json_iterate(root, &at) < 0)
        return 0;
    while (json_next(&at, &name, &length, &value))
        if (!(length == 5 && memcmp(name, "train", 5) == 0) &&
            !(length == 5 && memcmp(name, "valid", 5) == 0) &&
            !(length == 4 && memcmp(name, "test", 4) == 0))
            return error_set_code(err, ERROR_USAGE,
                                  "\"%.*s\" is not \"train\", \"valid\" or \"test\"; correct it",
                                  length < 60 ? (int)length : 60, name);
    return 0;
}

static int read_splits(struct arguments *a, struct error *err)
{
    const struct {
        const char *name;
        struct option_list *list;
    } splits[] = {{"train", &a->data.train_data_path},
                  {"valid", &a->data.valid_data_path},
                  {"test", &a->data.test_data_path}};
    struct json *json = json_read_file(a->data.per_split_data_args_path, MOST_BYTES, err);
    int rc = json ? check_names(json_root(json), err) : -1;

    if (json && rc < 0)
        error_prefix(err, "%s", a->data.per_split_data_args_path);
    for (size_t i = 0; i < 3 && rc == 0; i++) {
        struct json_value value;

        if (json_member(json_root(json), splits[i].name, &value) < 0)
            continue;
        rc = add_split(splits[i].list, value, err);
        if (rc < 0)
            error_prefix(err, "%s: \"%s\"", a->data.per_split_data_args_path, splits[i].name);
    }
    json_destroy(json);
    if (rc == 0 && a->data.train_data_path.count + a->data.valid_data_path.count == 0)
        return error_set_code(err, ERROR_USAGE,
                              "%s names no datasets; it must be an object with lists \"train\", "
                              "\"valid\" and \"test\"",
                              a->data.per_split_data_args_path);
    return rc;
}

int data_files_read(struct arguments *a, struct error *err)
{
    size_t lists = a->data.train_data_path.count + a->data.valid_data_path.count +
                   a->data.test_data_path.count;

    if (a->data.data_args_path && (a->data.data_path.count > 0 || lists > 0))
        return error_set(err, "--data-args-path cannot be used with --data-path or "
                              "--*-data-path; drop one");
    if (a->data.per_split_data_args_path &&
        (a->data.data_path.count > 0 || lists > 0 || a->data.data_args_path))
        return error_set(err, "--per-split-data-args-path cannot be used with --data-path, "
                              "--data-args-path or --*-data-path; drop one");
    if (a->data.data_args_path) {
        a->data.lists_owned = 1;
        if (read_list(a, err) < 0)
            return error_prefix(err, "--data-args-path");
    }
    if (a->data.per_split_data_args_path) {
        a->data.lists_owned = 1;
        if (read_splits(a, err) < 0)
            return error_prefix(err, "--per-split-data-args-path");
    }
    return 0;
}

void data_files_clear(struct arguments *a)
{
    struct option_list *lists[] = {&a->data.data_path, &a->data.train_data_path,
                                   &a->data.valid_data_path, &a->data.test_data_path};

    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < lists[i]->count && a->data.lists_owned; j++)
            free((void *)(uintptr_t)lists[i]->items[j]);
        free(lists[i]->items);
    }
}
