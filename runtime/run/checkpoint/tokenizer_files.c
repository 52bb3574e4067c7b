/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer_files.h"
#include "directory.h"
#include "lib/file.h"
#include "base/core/storage.h"
#include "base/core/json.h"
#include "base/core/json_write.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_LIMIT ((size_t)1 << 28)

/* The name of a type's model file. */
static const char *model_name(int type)
{
    switch (type) {
    case TOKENIZER_LLAMA3:
    case TOKENIZER_TIKTOKEN:
        return "tokenizer.tiktoken";
    case TOKENIZER_HUGGINGFACE:
        return "tokenizer.json";
    default:
        return "tokenizer.model";
    }
}

static int copy_file(const char *from, const char *directory, const char *name, struct error *err)
{
    struct file_bytes bytes;
    char to[PATH_MAX];
    int rc;

    if (directory_path(to, err, "%s/%s", directory, name) < 0)
        return -1;
    if (file_is_same(from, to))
        return 0;
    if (file_read(from, FILE_LIMIT, &bytes, err) < 0)
        return -1;
    rc = directory_write(directory, name, bytes.data, bytes.length, err);
    file_bytes_clear(&bytes);
    return rc;
}

/* Files next to a tokenizer.json belong to it: they name the tokens that begin and end a text.
 * Remove what an earlier tokenizer left in 'to'. */
static int copy_settings(const char *from, const char *to, struct error *err)
{
    static const char *const names[] = {"tokenizer_config.json", "special_tokens_map.json"};
    char source[PATH_MAX], target[PATH_MAX];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (directory_path(source, err, "%s/%s", from, names[i]) < 0 ||
            directory_path(target, err, "%s/%s", to, names[i]) < 0)
            return -1;
        if (access(source, F_OK) == 0) {
            if (copy_file(source, to, names[i], err) < 0)
                return -1;
        } else if (unlink(target) < 0 && errno != ENOENT) {
            return error_set_errno(err, errno, "cannot remove %s", target);
        }
    }
    return 0;
}

static int copy_model(const char *directory, const struct tokenizer_config *config,
                      struct error *err)
{
    const char *name = model_name(config->type), *from = config->model;
    struct stat status;
    char folder[PATH_MAX], within[PATH_MAX], *slash;

    if (directory_path(folder, err, "%s", from) < 0)
        return -1;
    /* A HuggingFaceTokenizer may be given as a directory. */
    if (stat(from, &status) == 0 && S_ISDIR(status.st_mode)) {
        if (directory_path(within, err, "%s/%s", from, name) < 0)
            return -1;
        from = within;
    } else if ((slash = strrchr(folder, '/'))) {
        slash[slash == folder] = '\0';
    } else {
        snprintf(folder, sizeof(folder), ".");
    }
    if (copy_file(from, directory, name, err) < 0)
        return -1;
    return config->type == TOKENIZER_HUGGINGFACE ? copy_settings(folder, directory, err) : 0;
}

int tokenizer_files_save(const char *directory, const struct tokenizer_config *config,
                         struct error *err)
{
#define TYPE(name) (1U << TOKENIZER_##name)
    const struct {
        unsigned types;
        const char *file, *key, *name;
    } rows[] = {
        {TYPE(GPT2_BPE), config->vocab_file, "vocab", "vocab.json"},
        {TYPE(GPT2_BPE), config->merge_file, "merges", "merges.txt"},
        {TYPE(BERT_LOWER_CASE) | TYPE(BERT_CASE), config->vocab_file, "vocab", "vocab.txt"},
        {TYPE(FAIRSEQ_WORDS) | TYPE(FAIRSEQ_BPE), config->vocab_file, "vocab", "dict.txt"},
    };
    struct json_writer json = {.spaced = true};
    unsigned type = 1U << config->type;
    int rc = 0;

    json_open(&json, NULL, '{');
    json_put_string(&json, "type", tokenizer_type_name((enum tokenizer_type)config->type));
    if (config->model && !(type & (TYPE(GPT2_BPE) | TYPE(NULL)))) {
        rc = copy_model(directory, config, err);
        json_put_string(&json, "model", model_name(config->type));
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && rc == 0; i++)
        if (rows[i].types & type && rows[i].file) {
            rc = copy_file(rows[i].file, directory, rows[i].name, err);
            json_put_string(&json, rows[i].key, rows[i].name);
        }
    json_close(&json);
    json_end_line(&json);
    if (rc == 0)
        rc = directory_write(directory, TOKENIZER_RECORD, json.data, json.size, err);
    json_writer_clear(&json);
    return rc;
#undef TYPE
}

int tokenizer_files_copy(const char *from, const char *to, int own, struct error *err)
{
    /* generation_config.json lists the tokens that end a text. */
    static const char *const names[] = {"tokenizer.json",
                                        "tokenizer.model",
                                        "vocab.json",
                                        "vocab.txt",
                                        "merges.txt",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "generation_config.json",
                                        "tokenizer.tiktoken",
                                        TOKENIZER_RECORD};
    size_t count = sizeof(names) / sizeof(names[0]);
    char path[PATH_MAX];

    for (size_t i = 0; i < (own ? count : count - 2); i++) {
        if (directory_path(path, err, "%s/%s", from, names[i]) < 0)
            return -1;
        if (access(path, R_OK) == 0 && copy_file(path, to, names[i], err) < 0)
            return -1;
    }
    return 0;
}

/* --- Finding --------------------------------------------------------------------------------- */

/* The path of a file in a directory, or NULL if it does not exist. */
static const char *beside(const char *directory, const char *name, char path[PATH_MAX])
{
    return directory_path(path, NULL, "%s/%s", directory, name) == 0 && access(path, R_OK) == 0
               ? path
               : NULL;
}

/* A member that names a file in the directory. 0 if there is no such member. */
static int read_name(struct json_value root, const char *member, const char *directory,
                     char path[PATH_MAX], struct error *err)
{
    struct json_value value;
    const char *name;
    size_t length;

    if (json_member(root, member, &value) < 0)
        return 0;
    if (json_string(value, &name, &length) < 0 || strlen(name) != length || strchr(name, '/') ||
        name[0] == '.' || !beside(directory, name, path))
        return error_set_code(err, ERROR_USAGE, "%s: the file of \"%s\" is missing", directory,
                              member);
    return 1;
}

static int read_record(struct json_value root, const char *directory,
                       struct tokenizer_config *config, char first[PATH_MAX], char second[PATH_MAX],
                       struct error *err)
{
    struct json_value value;
    const char *type = "";
    size_t length;
    int known = -1, model, vocab, merges;

    if (json_member(root, "type", &value) < 0 || json_string(value, &type, &length) < 0)
        return error_set_code(err, ERROR_USAGE, "it contains no tokenizer type");
    for (int i = 0; i <= TOKENIZER_NULL && known < 0; i++)
        if (strcmp(type, tokenizer_type_name((enum tokenizer_type)i)) == 0)
            known = i;
    if (known < 0) {
        error_set_code(err, ERROR_USAGE, "unknown tokenizer type %.50s", type);
        return error_append(
            err, "; choose a tokenizer with --tokenizer-type and the options for its files");
    }
    config->type = known;
    model = read_name(root, "model", directory, first, err);
    vocab = model == 0 ? read_name(root, "vocab", directory, first, err) : 0;
    merges = model == 0 ? read_name(root, "merges", directory, second, err) : 0;
    if (model < 0 || vocab < 0 || merges < 0)
        return -1;
    config->model = model ? first : NULL;
    config->vocab_file = vocab ? first : NULL;
    config->merge_file = merges ? second : NULL;
    return 1;
}

static int find_by_name(const char *directory, struct tokenizer_config *config,
                        char first[PATH_MAX], char second[PATH_MAX])
{
    if (beside(directory, "tokenizer.json", first)) {
        config->type = TOKENIZER_HUGGINGFACE;
        config->model = first;
    } else if (beside(directory, "tokenizer.model", first)) {
        config->type = TOKENIZER_LLAMA2;
        config->model = first;
    } else if (beside(directory, "vocab.json", first) && beside(directory, "merges.txt", second)) {
        config->type = TOKENIZER_GPT2_BPE;
        config->vocab_file = first;
        config->merge_file = second;
    } else {
        return 0;
    }
    return 1;
}

int tokenizer_files_find(const char *directory, struct tokenizer_config *config,
                         char first[PATH_MAX], char second[PATH_MAX], struct error *err)
{
    char path[PATH_MAX];
    struct json *json;
    int rc;

    if (!beside(directory, TOKENIZER_RECORD, path))
        return find_by_name(directory, config, first, second);
    json = json_read_file(path, 1 << 16, err);
    rc = json ? read_record(json_root(json), directory, config, first, second, err) : -1;
    json_destroy(json);
    if (rc < 0) {
        error_prefix(err, "%s", path);
        error_advise(err, "get its files again from their source if they are damaged, or choose "
                          "another tokenizer (--tokenizer-type)");
    }
    return rc;
}
