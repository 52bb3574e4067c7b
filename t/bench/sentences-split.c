/* SPDX-License-Identifier: Apache-2.0 */
/* usage: sentences-split DIR kept|stripped 3.8|3.10 [time] <TEXTS
 * Split texts, which are separated by bytes of value 1, with the punkt parameters in DIR. Prints
 * their sentences, each with a byte of value 2 after it and a text with one of value 1; or, with
 * `time`, the number of sentences and the megabytes per second of processor time. */
#include "data/preprocess/punkt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char *read_all(size_t *length)
{
    size_t room = 1 << 20, got;
    char *text = malloc(room);

    *length = 0;
    while (text && (got = fread(text + *length, 1, room - *length, stdin)) > 0) {
        *length += got;
        if (*length == room)
            text = realloc(text, room *= 2);
    }
    return text;
}

static void print_spans(const char *text, const struct punkt_spans *spans)
{
    for (size_t i = 0; i < spans->count; i++) {
        fwrite(text + spans->items[i].begin, 1, spans->items[i].end - spans->items[i].begin,
               stdout);
        putchar(2);
    }
    putchar(1);
}

int main(int argc, char **argv)
{
    struct punkt_options options;
    struct punkt_spans spans = {0};
    struct punkt *punkt;
    struct error err;
    size_t length, sentences = 0;
    char *text;
    clock_t began;

    if (argc < 4)
        return 2;
    options.keep_newlines = strcmp(argv[2], "kept") == 0;
    options.curly_quotes = strcmp(argv[3], "3.10") == 0;
    punkt = punkt_open(argv[1], &err);
    text = punkt ? read_all(&length) : NULL;
    if (!text) {
        fprintf(stderr, "%s\n", punkt ? "out of memory" : err.text);
        return 1;
    }
    began = clock();
    for (size_t at = 0; at <= length;) {
        const char *end = memchr(text + at, 1, length - at);
        size_t size = end ? (size_t)(end - text) - at : length - at;

        if (punkt_split(punkt, &options, text + at, size, &spans) < 0)
            return 1;
        sentences += spans.count;
        if (argc < 5)
            print_spans(text + at, &spans);
        at += size + 1;
    }
    if (argc > 4)
        printf("%zu %.1f\n", sentences,
               (double)length / 1e6 / ((double)(clock() - began) / CLOCKS_PER_SEC));
    free(text);
    punkt_spans_clear(&spans);
    punkt_close(punkt);
    return 0;
}
