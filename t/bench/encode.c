/* SPDX-License-Identifier: Apache-2.0 */
/* Encode the "text" of all lines of a JSON lines file, which are in memory before the clock starts:
 *
 *     encode TYPE MODEL|- CORPUS.jsonl [PASSES] [OUT.bin]
 *
 * With LENGTHS=FILE the number of ids of each document goes there as 64-bit numbers.
 * Prints for each pass the seconds and MB/s, and the processor time since the start of the process,
 * which include reading the model and the corpus; the first pass is cold. With COLD=1 all are: each
 * has an encoder of its own. */
#include "lib/file.h"
#include "base/core/json.h"
#include "data/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct documents {
    char *text;
    size_t *ends, count, length;
};

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int load(const char *path, struct documents *documents, struct error *err)
{
    struct file_bytes bytes;
    char *line, *end;

    if (file_read(path, (size_t)8 << 30, &bytes, err) < 0)
        return -1;
    documents->text = malloc(bytes.length + 1);
    documents->ends = malloc((bytes.length / 8 + 2) * sizeof(*documents->ends));
    if (!documents->text || !documents->ends)
        return error_set(err, "out of memory");
    end = bytes.data + bytes.length;
    for (line = bytes.data; line < end; line = strchr(line, '\n') + 1) {
        struct json *json = json_read(line, (size_t)(strchr(line, '\n') - line), err);
        struct json_value value;
        const char *text;
        size_t length;

        if (!json)
            return -1;
        if (json_member(json_root(json), "text", &value) == 0 &&
            json_string(value, &text, &length) == 0) {
            memcpy(documents->text + documents->length, text, length);
            documents->length += length;
            documents->ends[documents->count++] = documents->length;
        }
        json_destroy(json);
    }
    file_bytes_clear(&bytes);
    return 0;
}

static int run(int argc, char **argv, struct error *err)
{
    struct tokenizer_config config = {0};
    struct documents documents = {0};
    struct token_buffer out = {0};
    struct tokenizer *tokenizer;
    struct encoder *encoder;
    const char *cache = getenv("CACHE"), *lengths = getenv("LENGTHS");
    FILE *length_file = lengths ? fopen(lengths, "wb") : NULL;
    int passes = argc > 4 ? atoi(argv[4]) : 1;

    for (config.type = 0; config.type < TOKENIZER_NULL; config.type++)
        if (strcmp(tokenizer_type_name((enum tokenizer_type)config.type), argv[1]) == 0)
            break;
    config.model = strcmp(argv[2], "-") == 0 ? NULL : argv[2];
    if (config.type == TOKENIZER_BERT_LOWER_CASE || config.type == TOKENIZER_BERT_CASE)
        config.vocab_file = argv[2];
    config.special_as_text = getenv("ORDINARY") != NULL;
    config.add_specials = getenv("SPECIALS") != NULL;
    if (load(argv[3], &documents, err) < 0)
        return -1;
    tokenizer = tokenizer_create(&config, err);
    if (!tokenizer)
        return -1;
    encoder = encoder_create(tokenizer, cache ? strtoull(cache, NULL, 10) : 0, err);
    if (!encoder)
        return -1;
    /* Like a caller that knows the output size; pages are still touched for the first time. */
    token_buffer_reserve(&out, documents.length, tokenizer_id_size(tokenizer));
    for (int pass = 0; pass < passes; pass++) {
        double start, seconds;
        size_t at = 0;

        if (pass > 0 && getenv("COLD")) {
            encoder_destroy(encoder);
            encoder = encoder_create(tokenizer, cache ? strtoull(cache, NULL, 10) : 0, err);
            if (!encoder)
                return -1;
        }
        start = now();
        out.count = 0;
        for (size_t i = 0; i < documents.count; at = documents.ends[i++]) {
            uint64_t before = out.count;

            if (tokenizer_encode(encoder, documents.text + at, documents.ends[i] - at, &out, err) <
                0)
                return -1;
            before = out.count - before;
            if (length_file && fwrite(&before, sizeof(before), 1, length_file) != 1)
                return error_set(err, "cannot write %s", lengths);
        }
        seconds = now() - start;
        printf("%.4f s, %.1f MB/s, %zu ids, %.4f s since the start\n", seconds,
               (double)documents.length / seconds / 1e6, out.count, now());
    }
    if (argc > 5) {
        FILE *file = fopen(argv[5], "wb");

        if (!file || fwrite(out.ids, tokenizer_id_size(tokenizer), out.count, file) != out.count ||
            fclose(file) != 0)
            return error_set(err, "cannot write %s", argv[5]);
    }
    if (length_file && fclose(length_file) != 0)
        return error_set(err, "cannot write %s", lengths);
    token_buffer_clear(&out);
    encoder_destroy(encoder);
    tokenizer_destroy(tokenizer);
    free(documents.text);
    free(documents.ends);
    return 0;
}

int main(int argc, char **argv)
{
    struct error err = {.text = ""};

    if (argc < 4) {
        fprintf(stderr, "usage: encode TYPE MODEL|- CORPUS.jsonl [PASSES] [OUT.bin]\n");
        return 2;
    }
    if (run(argc, argv, &err) < 0) {
        fprintf(stderr, "encode: %s\n", err.text);
        return 1;
    }
    return 0;
}
