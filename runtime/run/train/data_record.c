/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"
#include "arguments_private.h"
#include "run/checkpoint/directory.h"
#include "lib/file.h"
#include "base/core/log.h"
#include "base/core/memory_stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_NAME ".data"

enum { MOST_BYTES = 16 << 20, SHOWN = 256 };

static void put_list(FILE *stream, const char *name, const struct option_list *list)
{
    if (list->count == 0)
        return;
    fprintf(stream, "--%s", name);
    for (size_t i = 0; i < list->count; i++)
        fprintf(stream, " %s", list->items[i]);
    fputc('\n', stream);
}

static void put_values(FILE *stream, const struct arguments *a, const char *const *names)
{
    for (; *names; names++)
        for (const struct option *row = arguments_table; row->name; row++)
            if (row->type != OPTION_HEADING && strcmp(row->name, *names) == 0) {
                fprintf(stream, "--%s", row->name);
                arguments_print_value(a, row, stream);
            }
}

/* The options that determine the tokens of a sample, which of them count, and the order of samples.
 */
static void put_samples(FILE *stream, const struct arguments *a)
{
    static const char *const causal[] = {"dataloader-type", "reset-position-ids",
                                         "reset-attention-mask", "eod-mask-loss", NULL};
    static const char *const masked[] = {"mask-prob", "mask-whole-words", NULL};
    static const char *const bert[] = {"short-seq-prob", NULL};
    /* Samples are sorted into batches of this size. */
    static const char *const fairseq[] = {"sample-break-mode",
                                          "pack",
                                          "micro-batch-size",
                                          "max-tokens",
                                          "required-batch-size-multiple",
                                          "masking",
                                          "leave-unmasked-prob",
                                          "random-token-prob",
                                          "freq-weighted-replacement",
                                          NULL};

    if (!a->model.network.masked) {
        put_values(stream, a, causal);
        /* Each data-parallel rank shuffles a part of its own. */
        if (a->data.dataloader_type == DATALOADER_CYCLIC)
            fprintf(stream, "data-parallel size %" PRId64 "\n", a->layout.dp);
        return;
    }
    fprintf(stream, "--masked-data %s\n", arguments_use_bert(a) ? "bert" : "fairseq");
    put_values(stream, a, masked);
    put_values(stream, a, arguments_use_bert(a) ? bert : fairseq);
}

/* One line per option. The caller frees it. */
static char *describe(const struct arguments *a, uint64_t seed)
{
    char *text = NULL;
    size_t size;
    FILE *stream = memory_stream(&text, &size);

    if (a->data.mock_data)
        fprintf(stream, "--mock-data\n");
    put_list(stream, "data-path", &a->data.data_path);
    put_list(stream, "train-data-path", &a->data.train_data_path);
    put_list(stream, "valid-data-path", &a->data.valid_data_path);
    put_list(stream, "test-data-path", &a->data.test_data_path);
    if (a->data.data_path.count > 0)
        fprintf(stream, "--split %s\n", a->data.split ? a->data.split : DATASET_DEFAULT_SPLIT);
    fprintf(stream, "--seq-length %" PRId64 "\n--seed %" PRIu64 "\n",
            a->model.network.shape.sequence, seed);
    put_samples(stream, a);
    memory_stream_close(stream);
    return text;
}

/* The line of 'text' with the same option as 'line', or NULL. */
static const char *find_line(const char *text, const char *line)
{
    size_t length = strcspn(line, " \n");

    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        if (strcspn(text, " \n") == length && strncmp(text, line, length) == 0)
            return text;
    return NULL;
}

static int line_length(const char *line)
{
    size_t length = strcspn(line, "\n");

    return length < 200 ? (int)length : 200;
}

/* A line as the user would write it: flags without their value. */
static void show(const char *line, char text[SHOWN])
{
    int length = line_length(line);

    if (length > 6 && strncmp(line + length - 6, " False", 6) == 0)
        snprintf(text, SHOWN, "without %.*s", length - 6, line);
    else if (length > 5 && strncmp(line + length - 5, " True", 5) == 0)
        snprintf(text, SHOWN, "%.*s", length - 5, line);
    else
        snprintf(text, SHOWN, "%.*s", length, line);
}

/* Warn about lines of 'before' that differ in 'now' or are missing. */
static void compare(const char *before, const char *now)
{
    char was[SHOWN], is[SHOWN];

    for (; *before; before += strcspn(before, "\n"), before += *before == '\n') {
        const char *same = find_line(now, before);

        show(before, was);
        if (!same) {
            log_warning("the data differs from that of the resumed run: it was %s; restore it if "
                        "that was not intended",
                        was);
        } else if (strcspn(same, "\n") != strcspn(before, "\n") ||
                   strncmp(same, before, strcspn(before, "\n")) != 0) {
            show(same, is);
            log_warning("the data differs from that of the resumed run: it was %s; now it is %s; "
                        "restore it if that was not intended",
                        was, is);
        }
    }
}

void data_record_keep(const struct arguments *a, uint64_t seed)
{
    struct file_bytes bytes = {0};
    struct error trouble;
    char path[PATH_MAX], *text = describe(a, seed);

    if (a->checkpoint.load && !a->checkpoint.finetune &&
        directory_has(a->checkpoint.load, RECORD_NAME) &&
        directory_path(path, NULL, "%s/" RECORD_NAME, a->checkpoint.load) == 0 &&
        file_read(path, MOST_BYTES, &bytes, &trouble) == 0)
        compare(bytes.data, text);
    file_bytes_clear(&bytes);
    if (a->checkpoint.save &&
        directory_write(a->checkpoint.save, RECORD_NAME, text, strlen(text), &trouble) < 0)
        log_warning("%s", trouble.text);
    free(text);
}
