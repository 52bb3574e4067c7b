/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of `megatron preprocess`: its input, and everything else that the output depends on. */
#include "config.h"
#include "data/jobs/disk.h"
#include "data/jobs/input_plan.h"
#include "run.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* Add the checksum of a tokenizer's file. */
static int put_file(struct bytes *bytes, const char *path, struct error *err)
{
    struct file_bytes file;
    int rc;

    bytes_put_text(bytes, path);
    if (!path)
        return 0;
    rc = disk_read_file(path, (size_t)1 << 30, &file, err);
    if (rc > 0)
        return 0; /* a directory or a built-in name; if it is wrong, the tokenizer reports it */
    if (rc < 0)
        return -1;
    bytes_put_u64(bytes, checksum_seeded(file.data, file.length, 0));
    file_bytes_clear(&file);
    return 0;
}

static int is_directory(const char *path)
{
    struct stat status;

    return path && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Add a directory's tokenizer.json, or the file itself, and the tokenizer_config.json beside it,
 * which names the special tokens of a HuggingFaceTokenizer. */
static int put_model(struct bytes *bytes, const char *model, struct error *err)
{
    char path[DISK_PATH], config[DISK_PATH];
    const char *slash;

    if (!model)
        return put_file(bytes, NULL, err);
    if (disk_path(path, err, "%s%s", model, is_directory(model) ? "/tokenizer.json" : "") < 0)
        return -1;
    slash = strrchr(path, '/');
    if (disk_path(config, err, "%.*stokenizer_config.json", slash ? (int)(slash - path) + 1 : 0,
                  path) < 0 ||
        put_file(bytes, path, err) < 0)
        return -1;
    return put_file(bytes, config, err);
}

/* Add the files of the tokenizer and the properties of the loaded one. */
static int put_tokenizer(struct bytes *bytes, const struct tokenizer_config *tokenizer,
                         const struct tokenizer *loaded, struct error *err)
{

    bytes_put_u64(bytes, (uint64_t)tokenizer->type);
    bytes_put_u64(bytes, (uint64_t)tokenizer->vocab_size);
    bytes_put_u64(bytes, (uint64_t)tokenizer->special_as_text);
    bytes_put_u64(bytes, (uint64_t)tokenizer->add_bos);
    bytes_put_u64(bytes, (uint64_t)tokenizer->add_specials);
    bytes_put_u64(bytes, (uint64_t)tokenizer->llama3_release);
    if (put_file(bytes, tokenizer->vocab_file, err) < 0 ||
        put_file(bytes, tokenizer->merge_file, err) < 0)
        return -1;
    bytes_put_u64(bytes, (uint64_t)tokenizer_vocab_size(loaded));
    bytes_put_u64(bytes, (uint64_t)tokenizer_bos(loaded));
    bytes_put_u64(bytes, (uint64_t)tokenizer_eos(loaded));
    bytes_put_u64(bytes, (uint64_t)tokenizer_eod(loaded));
    return put_model(bytes, tokenizer->model, err);
}

/* Add the options and parameters of sentence splitting. */
static int put_punkt(struct bytes *bytes, const struct preprocess_config *config, struct error *err)
{
    static const char *const names[] = {"abbrev_types.txt", "sent_starters.txt", "collocations.tab",
                                        "ortho_context.tab"};
    char path[DISK_PATH];

    bytes_put_u64(bytes, config->punkt != NULL);
    if (!config->punkt)
        return 0;
    bytes_put_u64(bytes, (uint64_t)config->punkt_options.keep_newlines);
    bytes_put_u64(bytes, (uint64_t)config->punkt_options.curly_quotes);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (disk_path(path, err, "%s/%s", config->punkt, names[i]) < 0 ||
            put_file(bytes, path, err) < 0)
            return -1;
    return 0;
}

/* Add everything that the output depends on. */
static int put_identity(struct bytes *bytes, const struct input_plan *plan,
                        const struct preprocess_config *config, const struct tokenizer *tokenizer,
                        struct error *err)
{
    bytes_put_text(bytes, PACKAGE_VERSION);
    bytes_put_u64(bytes, config->mode);
    bytes_put_u64(bytes, (uint64_t)config->detokenize);
    if (config->mode == RECORD_PAGE)
        input_plan_put_wiki(bytes, &config->wiki);
    bytes_put_u64(bytes, (uint64_t)config->append_eod);
    bytes_put_u64(bytes, (uint64_t)config->fairseq);
    if (put_punkt(bytes, config, err) < 0)
        return -1;
    bytes_put_u64(bytes, (uint64_t)config->max_line);
    bytes_put_u64(bytes, (uint64_t)config->max_documents);
    bytes_put_u64(bytes, (uint64_t)config->shards);
    bytes_put_u64(bytes, config->key_count);
    for (size_t i = 0; i < config->key_count; i++)
        bytes_put_text(bytes, config->keys[i]);
    if (put_tokenizer(bytes, &config->tokenizer, tokenizer, err) < 0)
        return -1;
    input_plan_put_files(bytes, plan);
    return 0;
}

int plan_make(struct input_plan *plan, const struct preprocess_config *config,
              const struct tokenizer *tokenizer, struct error *err)
{
    struct bytes bytes = {0};
    int64_t target;
    int rc;

    memset(plan, 0, sizeof(*plan));
    if (corpus_files_find(&plan->files, config->inputs, config->input_count, config->output_prefix,
                          err) < 0)
        return -1;
    target = input_plan_cut(plan, config->mode, config->chunk_bytes);
    input_plan_note(plan, config->chunk_bytes, target);
    rc = put_identity(&bytes, plan, config, tokenizer, err);
    bytes_put_u64(&bytes, (uint64_t)target);
    plan->identity = checksum_seeded(bytes.data, bytes.size, 1);
    bytes_clear(&bytes);
    return rc;
}
