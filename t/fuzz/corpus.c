/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: hostile lines of JSON, hostile files of every codec cut at hostile places, and
 * hostile files in a work directory. The first byte of an input chooses. */
#include "fuzz.h"
#include "data/tokenizer/tokenizer.h"
#include "data/corpus/jsonl.h"
#include "data/preprocess/output_layout.h"
#include "data/corpus/records.h"
#include "unit/runtime/data/corpus/wiki_text.h"

#include <string.h>

/* Only layouts that are made open parts and ask the tokenizer, and here they are read. */
struct part_reader *encode_open_part(struct encode *encode, struct job *job, size_t chunk,
                                     struct error *err)
{
    return encode && job && chunk && err ? NULL : NULL;
}

int encode_redo(struct encode *encode, struct job *job, size_t chunk, struct error *err)
{
    return encode && job && chunk && err ? -1 : -1;
}

void job_progress(struct job *job, int64_t documents, int64_t bytes, int64_t passed)
{
    (void)(job && documents && bytes && passed);
}

int tokenizer_accepts(const struct tokenizer *tokenizer, const char *text, size_t length)
{
    return tokenizer && text && length;
}

size_t tokenizer_id_size(const struct tokenizer *tokenizer)
{
    return tokenizer ? 2 : 0;
}

int64_t tokenizer_vocab_size(const struct tokenizer *tokenizer)
{
    return tokenizer ? 1 : 0;
}

int64_t tokenizer_bos(const struct tokenizer *tokenizer)
{
    return tokenizer ? 1 : 0;
}

int64_t tokenizer_eos(const struct tokenizer *tokenizer)
{
    return tokenizer ? 1 : 0;
}

int64_t tokenizer_eod(const struct tokenizer *tokenizer)
{
    return tokenizer ? 1 : 0;
}

static char path[64];

static void put(const void *data, size_t size)
{
    if (!path[0])
        snprintf(path, sizeof(path), "%s/%ld", fuzz_place(), (long)getpid());
    fuzz_put(path, "", data, size);
}

/* UTF-8 without surrogates, as tokenizers may expect it. */
static int is_utf8(const unsigned char *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        unsigned char c = text[i];
        size_t length = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : (c & 0xf0) == 0xe0 ? 3 : 4;

        if ((c >= 0x80 && c < 0xc2) || c > 0xf4 || size - i < length)
            return 0;
        for (size_t k = 1; k < length; k++)
            if ((text[i + k] & 0xc0) != 0x80)
                return 0;
        if (c == 0xed && text[i + 1] >= 0xa0)
            return 0;
        i += length;
    }
    return 1;
}

/* What follows a line in memory must not matter; what is accepted must be text. */
static void try_line(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"text", "a.b"};
    static struct jsonl *jsonl;
    enum document_fault faults[2];
    size_t sums[2] = {0, 0};

    if (!jsonl)
        jsonl = jsonl_create(keys, 2, NULL);
    for (int round = 0; round < 2; round++) {
        char *line = malloc(size + JSONL_PADDING);

        memcpy(line, data, size);
        memset(line + size, round ? '"' : '}', JSONL_PADDING);
        faults[round] = jsonl_parse(jsonl, line, size);
        for (size_t key = 0; key < 2 && faults[round] == FAULT_NONE; key++) {
            size_t count;
            const struct jsonl_text *texts = jsonl_texts(jsonl, key, &count);

            for (size_t i = 0; i < count; i++) {
                if (!is_utf8((const unsigned char *)texts[i].data, texts[i].size))
                    abort();
                sums[round] += texts[i].size + 1;
            }
        }
        free(line);
    }
    /* Of a line that is nested too deep and does not close, either may be said: where a bracket
     * follows in memory, the library counts them all first. */
    for (int round = 0; round < 2; round++)
        if (faults[round] == FAULT_DEPTH)
            faults[round] = FAULT_JSON;
    if (faults[0] != faults[1] || sums[0] != sums[1])
        abort();
}

/* A checksum over all records of the segments; 0 if they cannot be read. */
static uint64_t read_records(const struct corpus_files *files, const struct segment *segments,
                             size_t count, enum record_mode mode)
{
    struct error err = {.text = ""};
    struct record_reader *reader = record_reader_create(files, segments, count, mode, 512, 4096);
    struct record_block block = {0};
    uint64_t sum = 1;
    int rc;

    while ((rc = record_reader_next(reader, &block, &err)) > 0) {
        struct record_cursor cursor = {0, 0};
        struct record record;

        sum = block.too_long ? sum * 31 + 1 : sum;
        while (!block.too_long && record_next(mode, &block, &cursor, &record))
            sum = checksum_seeded(record.data, record.size, sum);
    }
    if (rc < 0 && err.text[0] == '\0')
        abort();
    record_block_clear(&block);
    record_reader_destroy(reader);
    return rc < 0 ? 0 : sum | 1;
}

static void try_file(const uint8_t *data, size_t size)
{
    struct corpus_files files;
    struct error err = {.text = ""};
    struct segment cut[2], whole = {0, 0, SOURCE_TO_END};
    enum record_mode mode;
    int64_t at;
    uint64_t one, two;

    if (size < 4)
        return;
    mode = (enum record_mode)(data[0] % 6);
    at = 1 + data[1] + 256 * data[2];
    put(data + 3, size - 3);
    if (corpus_files_find(&files, (const char *const[]){path}, 1, NULL, &err) < 0) {
        corpus_files_clear(&files);
        return;
    }
    one = read_records(&files, &whole, 1, mode);
    if (at < files.items[0].size && record_mode_cuts(mode) &&
        source_can_cut(path, files.items[0].codec, files.items[0].size)) {
        cut[0] = (struct segment){0, 0, at};
        cut[1] = (struct segment){0, at, SOURCE_TO_END};
        two = read_records(&files, cut, 2, mode);
        /* Damage may be seen in one way and not in the other; a plain file has none. */
        if (files.items[0].codec == CODEC_PLAIN && one != two)
            abort();
    }
    corpus_files_clear(&files);
}

static void try_work(const uint8_t *data, size_t size)
{
    struct input_plan plan;
    struct bytes bytes = {.data = (unsigned char *)(uintptr_t)data, .size = size};
    struct output_layout layout;
    struct part_reader *part;
    struct part_key keys[PART_KEYS];
    struct error err = {.text = ""};
    int torn;

    put(data, size);
    if (input_plan_read(&plan, path, &err) == 0)
        input_plan_clear(&plan);
    output_layout_take(&layout, &bytes);
    output_layout_clear(&layout);
    part = part_open(path, 1, 0, 1, 2, &torn, &err);
    while (part && part_next(part, keys, &torn, &err) > 0)
        ;
    part_close(part);
}

/* Unclosed markup is where its first character is, in all looks. */
static void check_unclosed(const struct wiki_unclosed *unclosed, const struct wiki_unclosed *other,
                           const char *page, size_t size)
{
    char text[80];

    if (unclosed->fault != other->fault || unclosed->place != other->place ||
        unclosed->tag != other->tag)
        abort();
    if (unclosed->fault == FAULT_NONE)
        return;
    wiki_unclosed_text(unclosed, text, sizeof(text));
    if (unclosed->place >= size || !strchr("&{[", page[unclosed->place]))
        abort();
}

/* A page of a dump, in all looks: what comes out is text. */
static void try_page(const uint8_t *data, size_t size)
{
    static const struct wiki_options looks[] = {
        {.style = WIKI_CLEAN},
        {.style = WIKI_CLEAN, .tables = WIKI_TABLES_TEXT, .math = WIKI_MATH_DROP, .no_title = 1},
        {.style = WIKI_EXTRACTOR, .disambiguations = 1, .redirects = 1}};
    static struct wikitext *converters[3];
    struct wiki_document document;
    struct wiki_unclosed first = {0};
    char *copy = malloc(size + 1), *page = wiki_text_page((const char *)data, size);
    int pages = 0;

    memcpy(copy, data, size);
    for (int i = 0; i < 3; i++) {
        if (!converters[i])
            converters[i] = wikitext_create(&looks[i]);
        if (size >= 5 && memcmp(copy, "<page", 5) == 0 &&
            wikitext_page(converters[i], copy, size, NULL, &document) == FAULT_NONE) {
            if (!is_utf8((const unsigned char *)document.text.data, document.text.size))
                abort();
            if (pages++ == 0)
                first = document.unclosed;
            check_unclosed(&document.unclosed, &first, copy, size);
        }
        if (is_utf8(data, size) &&
            wikitext_page(converters[i], page, strlen(page), NULL, &document) == FAULT_NONE &&
            !is_utf8((const unsigned char *)document.text.data, document.text.size))
            abort();
    }
    free(page);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    switch (data[0] % 4) {
    case 0:
        try_line(data + 1, size - 1);
        break;
    case 1:
        try_file(data + 1, size - 1);
        break;
    case 2:
        try_page(data + 1, size - 1);
        break;
    default:
        try_work(data + 1, size - 1);
    }
    return 0;
}
