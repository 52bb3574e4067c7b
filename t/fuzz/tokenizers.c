/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: hostile vocabularies of every kind, and texts. The first byte says what
 * follows: 0 vocab.json, a line "---" and merges.txt; 1 a SentencePiece model; 2 a rank file or
 * JSON list; 3 a tokenizer.json; 4 a text for GPT-2's own vocabulary; 5 a text for the
 * SentencePiece model in the environment variable MODEL; 6 a text for form C; 7 a vocab.txt of
 * BERT, a line "---" and a text; 8 a pattern, a line "---" and a text; 9 the four tables of punkt
 * and a text, with such lines between them; 10 a dict.txt of fairseq, a line "---" and a text.
 * Whatever they hold, loading ends with a tokenizer or a sentence; with a tokenizer, texts become
 * ids below its size, the same with any cache, and bytes come back as they were; what is in form C
 * stays so. */
#include "data/tokenizer/nfc.h"
#include "data/preprocess/punkt.h"
#include "data/tokenizer/steps.h"
#include "data/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    abort();
}

/* A file of these bytes; its path goes to 'path'. */
static int make_file(const char *name, const uint8_t *data, size_t size, char *path, size_t room)
{
    int fd = memfd_create(name, 0);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        die("memfd", name);
    snprintf(path, room, "/proc/self/fd/%d", fd);
    return fd;
}

static int64_t id_at(const struct tokenizer *tokenizer, const struct token_buffer *ids, size_t at)
{
    return tokenizer_id_size(tokenizer) == 4 ? ((int32_t *)ids->ids)[at]
                                             : ((uint16_t *)ids->ids)[at];
}

/* Encode with a small cache, twice: cold and from the cache. */
static void check_text(struct tokenizer *tokenizer, const char *text, size_t length, int exact)
{
    struct error err = {.text = ""};
    struct encoder *encoder = encoder_create(tokenizer, 1, &err);
    struct token_buffer first = {0}, second = {0};
    struct text_buffer back = {0};
    int64_t *ids;

    if (!encoder || tokenizer_encode(encoder, text, length, &first, &err) < 0 ||
        tokenizer_encode(encoder, text, length, &second, &err) < 0)
        die("encode", err.text);
    if (first.count != second.count ||
        (first.count > 0 &&
         memcmp(first.ids, second.ids, first.count * tokenizer_id_size(tokenizer)) != 0))
        die("encode", "the cache changes ids");
    ids = malloc((first.count + 1) * sizeof(*ids));
    for (size_t i = 0; i < first.count; i++) {
        ids[i] = id_at(tokenizer, &first, i);
        if (ids[i] < 0 || ids[i] >= tokenizer_vocab_size(tokenizer))
            die("encode", "an id outside the vocabulary");
    }
    if (tokenizer_decode(tokenizer, ids, first.count, &back, &err) < 0)
        die("decode", err.text);
    if (exact && (back.length != length || (length > 0 && memcmp(back.data, text, length) != 0)))
        die("decode", "another text comes back");
    free(ids);
    token_buffer_clear(&first);
    token_buffer_clear(&second);
    text_buffer_clear(&back);
    encoder_destroy(encoder);
}

static void check_config(const struct tokenizer_config *config, int exact)
{
    static const char sample[] =
        "Hello  world's 123456 \xE4\xBD\xA0\xE5\xA5\xBD \xE2\x96\x81 <s> "
        "\xFF\xC3\xA9 e\xCC\x81\xCC\xA3 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "abababababababababababababababababababababababababababababababababab\n\n ";
    struct error err = {.text = ""};
    struct tokenizer *tokenizer = tokenizer_create(config, &err);

    if (!tokenizer) {
        if (!err.text[0])
            die("create", "fails without a sentence");
        return;
    }
    check_text(tokenizer, sample, sizeof(sample) - 1, exact);
    check_text(tokenizer, sample, 0, exact);
    tokenizer_destroy(tokenizer);
}

static void check_gpt2(const uint8_t *data, size_t size)
{
    const uint8_t *cut = memmem(data, size, "\n---\n", 5);
    char vocabulary[64], merges[64];
    size_t first = cut ? (size_t)(cut - data) : size;
    int fds[2] = {make_file("vocab", data, first, vocabulary, sizeof(vocabulary)),
                  make_file("merges", cut ? cut + 5 : data, cut ? size - first - 5 : 0, merges,
                            sizeof(merges))};

    check_config(&(struct tokenizer_config){.vocab_file = vocabulary,
                                            .merge_file = merges,
                                            .special_as_text = 1},
                 1);
    close(fds[0]);
    close(fds[1]);
}

static void check_model(enum tokenizer_type type, const uint8_t *data, size_t size)
{
    char path[64];
    int fd = make_file("model", data, size, path, sizeof(path));

    check_config(&(struct tokenizer_config){.type = (int)type,
                                            .model = path,
                                            .special_as_text = 1,
                                            .add_specials = type == TOKENIZER_HUGGINGFACE},
                 0);
    close(fd);
}

static void check_known(struct tokenizer **tokenizer, struct tokenizer_config config,
                        const uint8_t *data, size_t size, int exact)
{
    struct error err = {.text = ""};

    if (!*tokenizer)
        *tokenizer = tokenizer_create(&config, &err);
    if (!*tokenizer)
        die("create", err.text);
    check_text(*tokenizer, (const char *)data, size, exact);
}

static void check_composed(const uint8_t *data, size_t size)
{
    size_t stays = nfc_stays(data, size);
    struct text_buffer once = {0}, twice = {0};
    struct nfc nfc = {0};

    nfc_rewrite(&nfc, NFC_FORM_C, data, size, &once);
    nfc_rewrite(&nfc, NFC_FORM_C, (const uint8_t *)once.data, once.length, &twice);
    if (once.length > 3 * size || stays > once.length ||
        (stays > 0 && memcmp(data, once.data, stays) != 0))
        die("form C", "what stays does not, or it is too long");
    if (once.length != twice.length ||
        (once.length > 0 && memcmp(once.data, twice.data, once.length) != 0))
        die("form C", "it changes once more");
    nfc_clear(&nfc);
    text_buffer_clear(&once);
    text_buffer_clear(&twice);
}

static void check_bert(const uint8_t *data, size_t size)
{
    const uint8_t *cut = memmem(data, size, "\n---\n", 5);
    size_t first = cut ? (size_t)(cut - data) : size;
    struct error err = {.text = ""};
    struct tokenizer_config config = {.type = TOKENIZER_BERT_LOWER_CASE};
    struct tokenizer *tokenizer;
    char path[64];
    int fd = make_file("vocab", data, first, path, sizeof(path));

    config.vocab_file = path;
    check_config(&config, 0);
    tokenizer = tokenizer_create(&config, &err);
    if (tokenizer && cut)
        check_text(tokenizer, (const char *)cut + 5, size - first - 5, 0);
    tokenizer_destroy(tokenizer);
    close(fd);
}

/* Pieces cover the text in order, whatever the pattern and the behavior are. */
static void check_pattern(const uint8_t *data, size_t size)
{
    const uint8_t *cut = memmem(data, size, "\n---\n", 5), *end = data + size, *next;
    const uint8_t *at = cut ? cut + 5 : data;
    struct steps steps = {0};
    struct stepping stepping;
    struct error err = {.text = ""};

    if (steps_add(&steps, (const char *)data, cut ? (size_t)(cut - data) : size, 0,
                  (enum step_behavior)(size & 3), size >> 2 & 1, size >> 3 & 1, &err) < 0) {
        if (!err.text[0])
            die("pattern", "fails without a sentence");
        return;
    }
    stepping_begin(&stepping, &steps, at, (size_t)(end - at));
    while ((next = stepping_next(&stepping))) {
        if (next <= at || next > end)
            die("pattern", "a piece that is empty or too long");
        at = next;
    }
    if (at != end)
        die("pattern", "pieces do not cover the text");
    steps_clear(&steps);
}

/* The next part of the data, up to a line "---" or the end. */
static void take_part(const uint8_t **data, size_t *size, const uint8_t **part, size_t *length)
{
    const uint8_t *end = memmem(*data, *size, "\n---\n", 5);

    *part = *data;
    *length = end ? (size_t)(end - *data) : *size;
    *data += end ? *length + 5 : *size;
    *size -= end ? *length + 5 : *size;
}

/* Sentences are in order, not empty and within the text, and all but white space is in one. */
static void check_spans(const struct punkt *punkt, const uint8_t *text, size_t length)
{
    for (int i = 0; i < 4; i++) {
        struct punkt_options options = {i & 1, i >> 1};
        struct punkt_spans spans = {0};
        size_t at = 0;

        if (punkt_split(punkt, &options, (const char *)text, length, &spans) < 0)
            die("punkt", "out of memory");
        for (size_t j = 0; j < spans.count; j++) {
            if (spans.items[j].begin < at || spans.items[j].end <= spans.items[j].begin ||
                spans.items[j].end > length)
                die("punkt", "a sentence is not in its place");
            at = spans.items[j].end;
        }
        punkt_spans_clear(&spans);
    }
}

static void check_punkt(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"abbrev_types.txt", "sent_starters.txt", "collocations.tab",
                                        "ortho_context.tab"};
    static const char directory[] = "punkt-tables"; /* in the campaign's own directory */
    struct error err;
    struct punkt *punkt;

    mkdir(directory, 0700);
    for (int i = 0; i < 4; i++) {
        const uint8_t *part;
        size_t length;
        char path[128];
        FILE *file;

        take_part(&data, &size, &part, &length);
        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        file = fopen(path, "wb");
        if (!file || fwrite(part, 1, length, file) != length)
            die("fwrite", path);
        fclose(file);
    }
    punkt = punkt_open(directory, &err);
    if (punkt)
        check_spans(punkt, data, size);
    punkt_close(punkt);
}

static void check_dict(const uint8_t *data, size_t size)
{
    struct tokenizer_config config = {.type = TOKENIZER_FAIRSEQ_WORDS};
    struct tokenizer *tokenizer;
    struct error err;
    const uint8_t *part;
    size_t length;
    char path[64];
    int fd;

    take_part(&data, &size, &part, &length);
    fd = make_file("dict", part, length, path, sizeof(path));
    config.vocab_file = path;
    tokenizer = tokenizer_create(&config, &err);
    if (tokenizer)
        check_text(tokenizer, (const char *)data, size, 0);
    tokenizer_destroy(tokenizer);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tokenizer *gpt2, *model;

    if (size == 0)
        return 0;
    data++, size--;
    switch (data[-1]) {
    case 0:
        check_gpt2(data, size);
        break;
    case 1:
        check_model(TOKENIZER_LLAMA2, data, size);
        break;
    case 2:
        check_model(TOKENIZER_TIKTOKEN, data, size);
        break;
    case 3:
        check_model(TOKENIZER_HUGGINGFACE, data, size);
        break;
    case 4:
        check_known(&gpt2, (struct tokenizer_config){0}, data, size, 1);
        break;
    case 5:
        if (getenv("MODEL"))
            check_known(
                &model,
                (struct tokenizer_config){.type = TOKENIZER_LLAMA2, .model = getenv("MODEL")}, data,
                size, 0);
        break;
    case 6:
        check_composed(data, size);
        break;
    case 7:
        check_bert(data, size);
        break;
    case 8:
        check_pattern(data, size < 2000 ? size : 2000);
        break;
    case 9:
        check_punkt(data, size);
        break;
    case 10:
        check_dict(data, size);
        break;
    default:
        break;
    }
    return 0;
}
