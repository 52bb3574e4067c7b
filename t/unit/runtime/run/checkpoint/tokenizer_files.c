/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer stored next to weights is the same one when it is found there. */
#include "tap.h"
#include "run/checkpoint/tokenizer_files.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL                                                                               \
    "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\","          \
    "\"prepend_scheme\":\"never\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1," \
    "\"ab\":2,\"</s>\":3,\"<stop>\":4},\"merges\":[\"a b\"]}}"

static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                    "special_tokens_map.json", "generation_config.json",
                                    TOKENIZER_RECORD};
static char directory[] = "/tmp/megatron-tokenizer-XXXXXX";

static const char *path_of(const char *folder, const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s/%s", directory, folder, name);
    return path;
}

static void write_text(const char *folder, const char *name, const char *text)
{
    FILE *file = fopen(path_of(folder, name), "w");

    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        ok(0, "cannot write %s", name);
}

static int64_t eod_of(const struct tokenizer_config *config)
{
    struct error err;
    struct tokenizer *tokenizer = tokenizer_create(config, &err);
    int64_t eod = tokenizer ? tokenizer_eod(tokenizer) : -2;

    if (!tokenizer)
        diag("%s", err.text);
    tokenizer_destroy(tokenizer);
    return eod;
}

/* Store the tokenizer of 'folder' in "kept"; returns the end-of-document token of the one that is
 * found there. */
static int64_t keep(const char *folder, const char *name)
{
    struct tokenizer_config config = {.type = TOKENIZER_HUGGINGFACE}, found = {0};
    char model[256], kept[256], first[PATH_MAX], second[PATH_MAX];
    struct error err;

    snprintf(model, sizeof(model), "%s", path_of(folder, name));
    snprintf(kept, sizeof(kept), "%s", path_of("kept", ""));
    config.model = model;
    if (tokenizer_files_save(kept, &config, &err) < 0 ||
        tokenizer_files_find(kept, &found, first, second, &err) != 1) {
        diag("%s", err.text);
        return -3;
    }
    if (eod_of(&found) != eod_of(&config))
        return -4;
    return eod_of(&found);
}

static int is_kept(const char *name)
{
    return access(path_of("kept", name), F_OK) == 0;
}

int main(void)
{
    static const char *const folders[] = {"named", "plain", "kept", "copied"};
    char from[256], to[256];
    struct error err;

    if (!mkdtemp(directory))
        return 1;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        if (mkdir(path_of(folders[i], ""), 0700) < 0)
            return 1;
    write_text("named", "tokenizer.json", MODEL);
    write_text("named", "tokenizer_config.json", "{\"eos_token\": \"<stop>\"}");
    write_text("named", "special_tokens_map.json", "{\"eos_token\": \"<stop>\"}");
    write_text("plain", "tokenizer.json", MODEL);

    ok(keep("named", "tokenizer.json") == 4, "the end that tokenizer_config.json names is kept");
    ok(is_kept("special_tokens_map.json"), "and special_tokens_map.json with it");
    ok(keep("kept", "tokenizer.json") == 4 && keep("kept", ".") == 4,
       "even if it is already there");
    ok(keep("plain", "tokenizer.json") == 3, "another tokenizer takes its place");
    ok(!is_kept("tokenizer_config.json") && !is_kept("special_tokens_map.json"),
       "and nothing of the first one is left");
    ok(keep("named", ".") == 4, "a tokenizer that is named by its folder");

    write_text("named", "generation_config.json", "{\"eos_token_id\": [3, 4]}");
    snprintf(from, sizeof(from), "%s", path_of("named", ""));
    snprintf(to, sizeof(to), "%s", path_of("copied", ""));
    ok(tokenizer_files_copy(from, to, 0, &err) == 0 &&
           access(path_of("copied", "tokenizer_config.json"), F_OK) == 0 &&
           access(path_of("copied", "generation_config.json"), F_OK) == 0,
       "generation_config.json is copied with a tokenizer");

    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
            unlink(path_of(folders[i], names[k]));
        rmdir(path_of(folders[i], ""));
    }
    rmdir(directory);
    return done_testing();
}
