/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "write.h"
#include "data/jobs/disk.h"
#include "lib/file.h"
#include "data/curate/lines.h"
#include "base/core/xmalloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

const char *const *write_names(enum learn_type type)
{
    static const char *const names[][4] = {
        [LEARN_BPE] = {"tokenizer.json", "vocab.json", "merges.txt", NULL},
        [LEARN_UNIGRAM] = {"tokenizer.json", "tokenizer.model", NULL},
        [LEARN_WORDPIECE] = {"tokenizer.json", "vocab.txt", NULL},
    };

    return names[type];
}

/* --- Serialized results ---------------------------------------------------------------- */

static void put_tokens(struct bytes *result, const struct tokens *tokens)
{
    bytes_put_u64(result, tokens->count);
    for (size_t id = 0; id < tokens->count; id++) {
        size_t size;
        const char *text = token_text(tokens, id, &size);

        bytes_put_u64(result, size);
        bytes_put(result, text, size);
    }
}

static void take_tokens(struct bytes *bytes, struct tokens *tokens)
{
    uint64_t count = bytes_take_u64(bytes);

    for (uint64_t id = 0; id < count && !bytes->failed; id++) {
        uint64_t size = bytes_take_u64(bytes);
        const void *text = bytes_take(bytes, size);

        if (text)
            tokens_add(tokens, text, size);
    }
}

void write_put_bpe(struct bytes *result, const struct bpe_learned *learned)
{
    put_tokens(result, &learned->tokens);
    bytes_put_u64(result, learned->merges.count);
    bytes_put(result, learned->merges.items, learned->merges.count * sizeof(struct bpe_merge));
}

void write_put_unigram(struct bytes *result, const struct unigram_learned *learned)
{
    put_tokens(result, &learned->pieces);
    bytes_put(result, learned->scores, learned->pieces.count * sizeof(*learned->scores));
}

static int damaged(struct error *err)
{
    return error_set(err, "the saved result in the work directory (next to the output) is damaged; "
                          "remove the directory and run again");
}

static int write_bpe(const struct learn_config *config, struct bytes *bytes, int64_t *tokens,
                     struct error *err)
{
    struct bpe_learned learned = {0};
    const struct bpe_merge *merges;
    uint64_t count;
    int rc;

    take_tokens(bytes, &learned.tokens);
    count = bytes_take_u64(bytes);
    merges = count <= bytes->size ? bytes_take(bytes, count * sizeof(*merges)) : NULL;
    if (merges)
        list_append(&learned.merges, merges, count);
    rc = merges ? write_bpe_files(config, &learned, err) : damaged(err);
    *tokens = (int64_t)learned.tokens.count;
    bpe_learned_clear(&learned);
    return rc;
}

static int write_unigram(const struct learn_config *config, struct bytes *bytes, int64_t *tokens,
                         struct error *err)
{
    struct unigram_learned learned = {0};
    const void *scores;
    int rc;

    take_tokens(bytes, &learned.pieces);
    scores = bytes_take(bytes, learned.pieces.count * sizeof(*learned.scores));
    learned.scores = xcalloc(learned.pieces.count + 1, sizeof(*learned.scores));
    if (scores)
        memcpy(learned.scores, scores, learned.pieces.count * sizeof(*learned.scores));
    rc = scores ? write_unigram_files(config, &learned, err) : damaged(err);
    *tokens = (int64_t)learned.pieces.count + write_unigram_fixed(config);
    unigram_learned_clear(&learned);
    return rc;
}

int write_files(const struct learn_config *config, struct bytes *learned, int64_t *tokens,
                struct error *err)
{
    return (config->type == LEARN_UNIGRAM ? write_unigram : write_bpe)(config, learned, tokens,
                                                                       err);
}

/* --- Files ------------------------------------------------------------------------------------ */

void write_format(struct line_buffer *out, const char *format, ...)
{
    va_list arguments;
    char *text;

    va_start(arguments, format);
    text = xvasprintf(format, arguments);
    va_end(arguments);
    line_put_word(out, text);
    free(text);
}

int write_file(const struct learn_config *config, const char *name, struct line_buffer *out,
               struct error *err)
{
    char path[DISK_PATH];
    int rc = disk_path(path, err, "%.3900s/%s", config->base.output, name);

    if (rc == 0)
        rc = file_write_whole(path, out->data, out->size, FILE_SYNC_DIRECTORY, err);
    line_buffer_clear(out);
    return rc;
}

void write_head(struct line_buffer *out, const char *const *specials, size_t count)
{
    line_put_word(out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n"
                       "  \"added_tokens\": [");
    for (size_t i = 0; i < count; i++) {
        write_format(out, "%s\n    {\"id\": %zu, \"content\": ", i ? "," : "", i);
        line_put_string(out, specials[i], strlen(specials[i]));
        line_put_word(out, ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                           "\"normalized\": false, \"special\": true}");
    }
    line_put_word(out, count > 0 ? "\n  ],\n" : "],\n");
}
