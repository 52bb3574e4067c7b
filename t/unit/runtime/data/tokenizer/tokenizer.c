/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers against what Megatron-LM's preprocess_data.py wrote for the same texts, and properties
 * that need no reference. */
#include "tap.h"
#include "lib/file.h"
#include "base/core/json.h"
#include "data/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct error err;
static const char *data; /* MEGATRON_TEST_DATA, or NULL */

static const char *in_data(const char *name)
{
    static char path[4][8192];
    static int turn;

    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", data, name);
    return path[turn];
}

static struct tokenizer *create(struct tokenizer_config config)
{
    struct tokenizer *tokenizer = tokenizer_create(&config, &err);

    if (!tokenizer)
        diag("%s", err.text);
    return tokenizer;
}

/* Encode the "text" of each line as a document with its end, and compare with a .bin file or, with
 * 'end' 0, with plain ids. */
static void compare_corpus(struct tokenizer *tokenizer, const char *corpus, const char *expected,
                           int end, size_t cache)
{
    struct encoder *encoder = encoder_create(tokenizer, cache, &err);
    struct file_bytes lines, bin;
    struct token_buffer out = {0};
    size_t bytes, number = 0;
    char *at;

    if (file_read(in_data(corpus), 1 << 30, &lines, &err) < 0 ||
        file_read(in_data(expected), 1 << 30, &bin, &err) < 0) {
        ok(0, "%s", err.text);
        return;
    }
    for (at = lines.data; at < lines.data + lines.length; number++) {
        char *newline = strchr(at, '\n');
        struct json *json = json_read(at, (size_t)(newline - at), &err);
        struct json_value text;
        const char *string;
        size_t length, before = out.count;

        if (!json || json_member(json_root(json), "text", &text) < 0 ||
            json_string(text, &string, &length) < 0 ||
            tokenizer_encode(encoder, string, length, &out, &err) < 0 ||
            (end && out.count > before &&
             tokenizer_append(encoder, tokenizer_eod(tokenizer), &out, &err) < 0)) {
            ok(0, "%s line %zu: %s", corpus, number + 1, err.text);
            break;
        }
        bytes = out.count * tokenizer_id_size(tokenizer);
        /* an empty text has no ids, and perhaps no array of them yet */
        if (bytes > bin.length ||
            (out.count > before &&
             memcmp((char *)out.ids + before * tokenizer_id_size(tokenizer),
                    bin.data + before * tokenizer_id_size(tokenizer),
                    (out.count - before) * tokenizer_id_size(tokenizer)) != 0)) {
            diag("%s line %zu differs", corpus, number + 1);
            json_destroy(json);
            break;
        }
        json_destroy(json);
        at = newline + 1;
    }
    bytes = out.count * tokenizer_id_size(tokenizer);
    ok(bytes == bin.length && memcmp(out.ids, bin.data, bytes) == 0, "%s gives %s (cache %zu)",
       corpus, expected, cache);
    token_buffer_clear(&out);
    file_bytes_clear(&lines);
    file_bytes_clear(&bin);
    encoder_destroy(encoder);
}

static void test_corpora(void)
{
    static const struct {
        int type;
        const char *model;
        int special_as_text;
        const char *corpus, *expected;
        int end;
    } rows[] = {
        {TOKENIZER_GPT2_BPE, NULL, 0, "tokenized/sample.jsonl", "tokenized/sample.gpt2.eod.bin", 1},
        {TOKENIZER_GPT2_BPE, NULL, 0, "tokenized/tricky.jsonl",
         "tokenized/tricky.gpt2.special.eod.bin", 1},
        {TOKENIZER_GPT2_BPE, NULL, 1, "tokenized/tricky.jsonl",
         "tokenized/tricky.gpt2.ordinary.u16", 0},
        {TOKENIZER_LLAMA2, "llama2/tokenizer.model", 0, "tokenized/sample.jsonl",
         "tokenized/sample.llama2.eod.bin", 1},
        {TOKENIZER_LLAMA2, "llama2/tokenizer.model", 0, "tokenized/tricky.jsonl",
         "tokenized/tricky.llama2.eod.bin", 1},
    };
    static const size_t caches[] = {0, 65536};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tokenizer *tokenizer = create((struct tokenizer_config){
            .type = rows[i].type,
            .model = rows[i].model ? in_data(rows[i].model) : NULL,
            .special_as_text = rows[i].special_as_text,
        });

        for (size_t k = 0; tokenizer && k < 2; k++)
            compare_corpus(tokenizer, rows[i].corpus, rows[i].expected, rows[i].end, caches[k]);
        ok(tokenizer != NULL, "%s is created", tokenizer_type_name(rows[i].type));
        tokenizer_destroy(tokenizer);
    }
}

static void encodes(struct tokenizer *tokenizer, struct encoder *encoder, const char *text,
                    const char *expected)
{
    struct token_buffer out = {0};
    char list[1024] = "";

    if (tokenizer_encode(encoder, text, strlen(text), &out, &err) < 0)
        snprintf(list, sizeof(list), "%s", err.text);
    for (size_t i = 0; i < out.count; i++)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%d", i ? " " : "",
                 tokenizer_id_size(tokenizer) == 4 ? ((int32_t *)out.ids)[i]
                                                   : ((uint16_t *)out.ids)[i]);
    is(list, expected, expected);
    token_buffer_clear(&out);
}

static void test_gpt2(void)
{
    static const struct {
        const char *text, *ids;
    } rows[] = {
        {"", ""},
        {"Hello world", "15496 995"},
        {"Hello<|endoftext|>world", "15496 50256 6894"},
        {"it's", "270 338"},
        {" ", "220"},
        {"\n\n", "628"},
    };
    struct tokenizer *tokenizer = create((struct tokenizer_config){0});
    struct encoder *encoder = tokenizer ? encoder_create(tokenizer, 0, &err) : NULL;

    ok(encoder != NULL, "GPT-2's vocabulary comes with the program");
    if (!encoder)
        return;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        encodes(tokenizer, encoder, rows[i].text, rows[i].ids);
    is_int(tokenizer_vocab_size(tokenizer), 50257, "size of the vocabulary");
    is_int(tokenizer_eod(tokenizer), 50256, "end of document");
    is_int((long long)tokenizer_id_size(tokenizer), 2, "two bytes per id");
    encoder_destroy(encoder);
    tokenizer_destroy(tokenizer);
}

static void test_null(void)
{
    static const struct {
        const char *text, *ids;
    } rows[] = {
        {"", ""},
        {"0 1 99999 100000", "0 1 99999 100000"},
        {"1  2", "NullTokenizer: there is no id at byte 2 of the text; texts are ids separated by "
                 "single spaces"},
        {"1 x", "NullTokenizer: byte 2 of the text is not a digit; texts are ids separated by "
                "single spaces"},
        {"100001", "NullTokenizer: the id at byte 0 of the text is too large for the vocabulary, "
                   "whose last id is 100000; raise --vocab-size"},
    };
    struct tokenizer *tokenizer =
        create((struct tokenizer_config){.type = TOKENIZER_NULL, .vocab_size = 100000});
    struct encoder *encoder = encoder_create(tokenizer, 0, &err);

    is_int(tokenizer_eod(tokenizer), 100000, "NullTokenizer's end of document");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        encodes(tokenizer, encoder, rows[i].text, rows[i].ids);
    encoder_destroy(encoder);
    tokenizer_destroy(tokenizer);
}

static uint64_t state = 88172645463325252u;

static unsigned draw(unsigned limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % limit;
}

/* Bytes of several shapes: any, ASCII, UTF-8 of one script, runs of one byte. */
static size_t draw_text(unsigned char *text, size_t most)
{
    static const unsigned starts[] = {0x61, 0x410, 0x905,  0x4E00, 0xAC00,
                                      0x20, 0x30,  0x2000, 0x3041};
    unsigned shape = draw(4), start = starts[draw(9)], run = draw(256);
    size_t length = 0, wanted = draw(2) ? draw(40) : draw((unsigned)most - 4);

    while (length < wanted) {
        unsigned point = start + draw(40);

        if (draw(8) == 0)
            text[length++] = " \n'\t."[draw(5)];
        else if (shape == 0)
            text[length++] = (unsigned char)draw(256);
        else if (shape == 1)
            text[length++] = (unsigned char)(32 + draw(95));
        else if (shape == 2 || point < 0x80)
            text[length++] = (unsigned char)run;
        else if (point < 0x800) {
            text[length++] = (unsigned char)(0xC0 | point >> 6);
            text[length++] = (unsigned char)(0x80 | (point & 0x3F));
        } else {
            text[length++] = (unsigned char)(0xE0 | point >> 12);
            text[length++] = (unsigned char)(0x80 | (point >> 6 & 0x3F));
            text[length++] = (unsigned char)(0x80 | (point & 0x3F));
        }
    }
    return length;
}

/* What is encoded comes back, byte for byte; and nothing is read behind a text, which ends where
 * memory does. */
static void test_round_trip(const char *name, struct tokenizer_config config)
{
    struct tokenizer *tokenizer = create(config);
    struct encoder *encoder = tokenizer ? encoder_create(tokenizer, 0, &err) : NULL;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), most = 3 * page;
    unsigned char *memory =
        mmap(NULL, most + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *draft = malloc(most);
    struct token_buffer out = {0};
    struct text_buffer back = {0};
    int64_t *ids = malloc(most * sizeof(*ids));
    int good = encoder != NULL;

    mprotect(memory + most, page, PROT_NONE);
    for (int round = 0; round < repetitions(3000) && good; round++) {
        size_t length = draw_text(draft, most);
        char *text = (char *)memory + most - length;

        memcpy(text, draft, length);
        out.count = back.length = 0;
        good = tokenizer_encode(encoder, text, length, &out, &err) == 0 && out.count <= length;
        for (size_t i = 0; good && i < out.count; i++)
            ids[i] = tokenizer_id_size(tokenizer) == 4 ? ((int32_t *)out.ids)[i]
                                                       : ((uint16_t *)out.ids)[i];
        good = good && tokenizer_decode(tokenizer, ids, out.count, &back, &err) == 0 &&
               back.length == length && (length == 0 || memcmp(back.data, text, length) == 0);
    }
    ok(good, "%s: what is encoded comes back", name);
    token_buffer_clear(&out);
    text_buffer_clear(&back);
    free(ids);
    free(draft);
    munmap(memory, most + page);
    encoder_destroy(encoder);
    tokenizer_destroy(tokenizer);
}

/* Do the ids that the encoder makes of a line's text equal those of its array 'member'? */
static int same_ids(struct encoder *encoder, struct json_value line, const char *member)
{
    struct token_buffer out = {0};
    struct json_value text, ids, id;
    struct json_iterator at;
    const char *string;
    size_t length, i = 0;
    int64_t number;
    int same;

    same = json_member(line, "text", &text) == 0 && json_string(text, &string, &length) == 0 &&
           json_member(line, member, &ids) == 0 && json_iterate(ids, &at) == 0 &&
           tokenizer_encode(encoder, string, length, &out, &err) == 0 &&
           out.count == json_count(ids);
    for (; same && json_next(&at, NULL, NULL, &id); i++)
        same = json_integer(id, &number) == 0 && ((uint16_t *)out.ids)[i] == number;
    token_buffer_clear(&out);
    return same;
}

/* Texts that are hard to split, with the ids of Hugging Face's tokenizer ("ids") and, where a
 * special token is plain text, of tiktoken's encode_ordinary ("ordinary"). */
static void test_reference(int special_as_text, size_t cache)
{
    struct tokenizer *tokenizer =
        create((struct tokenizer_config){.special_as_text = special_as_text});
    struct encoder *encoder = encoder_create(tokenizer, cache, &err);
    struct file_bytes lines;
    size_t number = 0, wrong = 0;

    if (file_read(TOP_SRCDIR "/t/tokenizer/gpt2-reference.jsonl", 1 << 20, &lines, &err) < 0) {
        ok(0, "%s", err.text);
        return;
    }
    for (char *at = lines.data, *newline; at < lines.data + lines.length; at = newline + 1) {
        struct json *json;
        struct json_value other;
        const char *member = "ids";

        newline = strchr(at, '\n');
        json = json_read(at, (size_t)(newline - at), &err);
        number++;
        if (json && special_as_text && json_member(json_root(json), "ordinary", &other) == 0)
            member = "ordinary";
        if (!json || !same_ids(encoder, json_root(json), member)) {
            diag("line %zu differs", number);
            wrong++;
        }
        json_destroy(json);
    }
    ok(number > 200 && wrong == 0, "%zu texts have the ids of the reference (%s, cache %zu)",
       number, special_as_text ? "special tokens are text" : "special tokens", cache);
    file_bytes_clear(&lines);
    encoder_destroy(encoder);
    tokenizer_destroy(tokenizer);
}

int main(void)
{
    data = getenv("MEGATRON_TEST_DATA");
    test_gpt2();
    test_round_trip("GPT-2", (struct tokenizer_config){0});
    for (int i = 0; i < 4; i++)
        test_reference(i & 1, i & 2 ? 65536 : 0);
    test_null();
    if (data && data[0]) {
        test_round_trip("Llama 3", (struct tokenizer_config){
                                       .type = TOKENIZER_LLAMA3,
                                       .model = in_data("llama3/tokenizer.model"),
                                   });
        test_corpora();
    } else {
        skip("Llama 3: what is encoded comes back", "MEGATRON_TEST_DATA is not set");
        skip("corpora that Megatron-LM tokenized", "MEGATRON_TEST_DATA is not set");
    }
    return done_testing();
}
