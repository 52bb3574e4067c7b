/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"
#include "base/core/xmalloc.h"
#include "lib/file.h"
#include "base/core/json.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 256 << 20 };

static const char spaces[] = " \t\r\n";

/* Append a copy of a word. */
static void add(struct option_list *list, const char *word, size_t length)
{
    list->items = xrealloc(list->items, list->count + 1, sizeof(*list->items));
    list->items[list->count++] = xstrndup(word, length);
}

static void add_words(struct option_list *list, const char *text)
{
    for (text += strspn(text, spaces); *text; text += strspn(text, spaces)) {
        size_t length = strcspn(text, spaces);

        add(list, text, length);
        text += length;
    }
}

static int read_list(struct arguments *a, struct error *err)
{
    struct file_bytes bytes = {0};

    if (file_read(a->data.data_args_path, MOST_BYTES, &bytes, err) < 0)
        return -1;
    add_words(&a->data.data_path, bytes.data);
    file_bytes_clear(&bytes);
    return a->data.data_path.count > 0
               ? 0
               : error_set_code(err, ERROR_USAGE,
                                "%s names no datasets; it must list PREFIX or WEIGHT PREFIX",
                                a->data.data_args_path);
}

/* The value of one split: a list of prefixes and weights, which may be numbers, or a string. */
static int add_split(struct option_list *list, struct json_value value, struct error *err)
{
    struct json_iterator at;
    struct json_value element;
    const char *text;
    size_t length;
    double real;

    if (json_type(value) == JSON_NULL)
        return 0;
    if (json_string(value, &text, &length) == 0) {
        add_words(list, text);
        return 0;
    }
    if (json_type(value) != JSON_ARRAY || json_iterate(value, &at) < 0)
        return error_set_code(err, ERROR_USAGE,
                              "it must be a list of weights and paths, as in [\"0.3\", \"a\", "
                              "\"0.7\", \"b\"]; correct the file");
    while (json_next(&at, NULL, NULL, &element)) {
        char number[40];

        if (json_string(element, &text, &length) == 0) {
            add(list, text, length);
            continue;
        }
        if (json_real(element, &real) < 0)
            return error_set_code(
                err, ERROR_USAGE,
                "each element of the list must be a path or a weight; correct the file");
        add(list, number, (size_t)snprintf(number, sizeof(number), "%.17g", real));
    }
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
    const char *path = a->data.per_split_data_args_path, *name;
    struct json *json = json_read_file(path, MOST_BYTES, err);
    struct json_iterator at;
    struct json_value value;
    size_t length;
    int rc = 0;

    if (!json)
        return -1;
    if (json_type(json_root(json)) == JSON_OBJECT && json_iterate(json_root(json), &at) == 0)
        while (rc == 0 && json_next(&at, &name, &length, &value)) {
            size_t i = 0;

            while (i < 3 &&
                   (strlen(splits[i].name) != length || memcmp(splits[i].name, name, length) != 0))
                i++;
            /* A misspelled name would be a split without data. */
            if (i == 3)
                rc = error_set_code(err, ERROR_USAGE,
                                    "%s: \"%.*s\" is not \"train\", \"valid\" or \"test\"; "
                                    "correct it",
                                    path, length < 60 ? (int)length : 60, name);
            else if (add_split(splits[i].list, value, err) < 0)
                rc = error_prefix(err, "%s: \"%s\"", path, splits[i].name);
        }
    json_destroy(json);
    if (rc == 0 && a->data.train_data_path.count + a->data.valid_data_path.count == 0)
        return error_set_code(err, ERROR_USAGE,
                              "%s names no datasets; it must be an object with lists \"train\", "
                              "\"valid\" and \"test\"",
                              path);
    return rc;
}

int data_files_read(struct arguments *a, struct error *err)
{
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
