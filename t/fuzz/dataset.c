/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: hostile .idx files and index cache files. Whatever they contain, opening,
 * verifying and reading them must return a result or an error with a sentence. */
#include "data/dataset/bert.h"
#include "fuzz.h"
#include "data/dataset/gpt_index.h"
#include "data/dataset/index_file.h"
#include "data/dataset/indexed.h"

#include <string.h>
#include <unistd.h>

enum { BIN_SIZE = 64, TOKENS = 16 };
static char prefix[64];

/* Samples of BERT from what the arrays contain. */
static void try_bert(const struct indexed *corpus)
{
    const struct indexed_info *info = indexed_info(corpus);
    int64_t documents[65];
    int32_t lengths[64];
    struct bert_request request = {.documents = documents,
                                   .document_count = info->documents,
                                   .lengths = lengths,
                                   .samples = 8,
                                   .target = 13,
                                   .short_probability = 0.5,
                                   .least = 2};
    struct bert_range *ranges = NULL;
    struct error err = {.text = ""};

    if (info->documents > 64 || info->sequences > 64)
        return;
    fuzz_check(indexed_documents(corpus, 0, info->documents + 1, documents, &err) < 0 ||
                   indexed_lengths(corpus, 0, info->sequences, lengths, &err) < 0 ||
                   bert_mapping(&request, &ranges, &err) < 0,
               &err);
    free(ranges);
}

static struct indexed *try_corpus(void)
{
    struct error err = {.text = ""};
    struct indexed *corpus = indexed_open(prefix, &err);
    int64_t sequences, tokens;
    int32_t out[TOKENS];

    fuzz_check(!corpus, &err);
    if (!corpus)
        return NULL;
    sequences = indexed_info(corpus)->sequences;
    err.text[0] = '\0';
    fuzz_check(indexed_verify(corpus, &tokens, &err) < 0, &err);
    try_bert(corpus);
    for (int64_t i = -1; i <= sequences && i < 64; i++) {
        err.text[0] = '\0';
        fuzz_check(indexed_tokens(corpus, i, 0, -1, out, TOKENS, &err) < 0, &err);
        err.text[0] = '\0';
        fuzz_check(indexed_tokens(corpus, i, 1, 3, out, TOKENS, &err) < 0, &err);
    }
    return corpus;
}

/* An index of hostile numbers, over a good or a hostile corpus. */
static void try_index(const struct indexed *corpus)
{
    struct error err = {.text = ""};
    struct index_file *file = NULL;
    char path[96];
    int32_t text[TOKENS + 1];

    snprintf(path, sizeof(path), "%s.index", prefix);
    if (index_file_open(path, "fuzz", &file, &err) < 0 || !file)
        return;
    for (int64_t i = 0; i < 32; i++) {
        err.text[0] = '\0';
        fuzz_check(gpt_index_text(file, corpus, TOKENS, i, text, &err) < 0, &err);
    }
    index_file_close(file);
}

/* A valid header with the counts and widths of the input, and the input as arrays. */
static void put_index(const uint8_t *data, size_t size)
{
    static unsigned char file[8192 + 3 * 4096];
    int64_t numbers[7] = {0}, end = 8192;

    memset(file, 0, sizeof(file));
    memcpy(file, "MGTINDX1", 8);
    for (int i = 0; i < 3; i++) {
        static const int64_t widths[3][2] = {{4, 4}, {8, 16}, {4, 8}};
        int64_t width = widths[i][size > 3 ? data[3] >> i & 1 : 0];

        numbers[1 + 2 * i] = size > 3 ? data[i] % 64 : 8;
        numbers[2 + 2 * i] = width;
        end += 4096;
        for (size_t j = 0; j < 512 && 4 + (size_t)i * 512 + j < size; j++)
            file[8192 + i * 4096 + (int)j] = data[4 + (size_t)i * 512 + j];
    }
    numbers[0] = end;
    memcpy(file + 8, numbers, sizeof(numbers));
    strcpy((char *)file + 128, "fuzz");
    fuzz_put(prefix, ".index", file, sizeof(file));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char bin[BIN_SIZE];
    struct indexed *corpus;

    if (!prefix[0]) {
        snprintf(prefix, sizeof(prefix), "%s/%ld", fuzz_place(), (long)getpid());
        fuzz_put(prefix, ".bin", bin, BIN_SIZE);
    }
    if (size < 1)
        return 0;
    fuzz_put(prefix, ".idx", data + 1, size - 1);
    corpus = try_corpus();
    if (corpus && (data[0] & 1)) {
        put_index(data + 1, size - 1);
        try_index(corpus);
    }
    if (corpus && (data[0] & 2)) {
        fuzz_put(prefix, ".index", data + 1, size - 1);
        try_index(corpus);
    }
    indexed_close(corpus);
    return 0;
}
