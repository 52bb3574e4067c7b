/* SPDX-License-Identifier: Apache-2.0 */
/* Files of vocabularies that tests write and load. */
#ifndef MEGATRON_TEST_VOCABULARY_H
#define MEGATRON_TEST_VOCABULARY_H

#include "tap.h"
#include "data/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <unistd.h>

#include "data/tokenizer/trie.h"

/* What this program cannot read. */
#define OTHER OTHER_TOKENIZER

static struct error err;
static char directory[] = "/tmp/megatron-vocabulary-XXXXXX";

static inline const char *path_of(const char *name)
{
    static char path[4][256];
    static int turn;

    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", directory, name);
    return path[turn];
}

static inline const char *write_file(const char *name, const void *data, size_t length)
{
    const char *path = path_of(name);
    FILE *file = fopen(path, "wb");

    if (!file || fwrite(data, 1, length, file) != length || fclose(file) != 0)
        ok(0, "cannot write %s", path);
    return path;
}

static inline const char *write_text(const char *name, const char *text)
{
    return write_file(name, text, strlen(text));
}

/* The error of creating a tokenizer, with the directory and the general remedy cut out. */
static inline const char *refusal(struct tokenizer_config config)
{
    static char text[2048];
    struct tokenizer *tokenizer = tokenizer_create(&config, &err);
    char *at;

    if (tokenizer) {
        tokenizer_destroy(tokenizer);
        return "(accepted)";
    }
    snprintf(text, sizeof(text), "%.*s", (int)(strlen(err.text) - (size_t)err.advice), err.text);
    while ((at = strstr(text, directory)))
        memmove(at, at + strlen(directory) + 1, strlen(at + strlen(directory) + 1) + 1);
    return text;
}

/* The ids of a text, or the sentence that refuses the vocabulary. */
static inline const char *ids_of_bytes(struct tokenizer_config config, const char *text,
                                       size_t bytes)
{
    static char list[2048];
    struct tokenizer *tokenizer = tokenizer_create(&config, &err);
    struct encoder *encoder = tokenizer ? encoder_create(tokenizer, 0, &err) : NULL;
    struct token_buffer out = {0};
    size_t length = 0;

    if (!encoder)
        return refusal(config);
    list[0] = '\0';
    if (tokenizer_encode(encoder, text, bytes, &out, &err) < 0)
        snprintf(list, sizeof(list), "%s", err.text);
    for (size_t i = 0; i < out.count; i++)
        length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%d", i ? " " : "",
                                   ((uint16_t *)out.ids)[i]);
    token_buffer_clear(&out);
    encoder_destroy(encoder);
    tokenizer_destroy(tokenizer);
    return list;
}

static inline const char *ids_of(struct tokenizer_config config, const char *text)
{
    return ids_of_bytes(config, text, strlen(text));
}

/* All bytes as GPT-2 writes them, then 'more'. */
static inline char *byte_vocabulary(const char *more)
{
    static char text[8192];
    size_t length = 0;
    unsigned extra = 0x100;

    length += (size_t)sprintf(text + length, "{");
    for (unsigned byte = 0; byte < 256; byte++) {
        int plain = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);

        length += (size_t)sprintf(text + length, "\"\\u%04x\":%u,", plain ? byte : extra++, byte);
    }
    sprintf(text + length, "%s}", more);
    return text;
}

/* Remove the directory and what tests write there. */
static inline void remove_files(void)
{
    static const char *const names[] = {"vocab.json",     "merges.txt", "ranks",
                                        "tokenizer.json", "model",      "vocab.txt"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unlink(path_of(names[i]));
    rmdir(directory);
}

#endif
