/* SPDX-License-Identifier: Apache-2.0 */
/* BERT's vocab.txt and tokenizer.json: the ids of Hugging Face's tokenizers 0.23. */
#include "vocabulary.h"

static const char *const tokens[] = {
    "[PAD]",    "[UNK]",        "[CLS]",
    "[SEP]",    "[MASK]",       "hello",
    "wor",      "##ld",         "e",
    "##te",     "cafe",         ",",
    "!",        "\xE4\xBD\xA0", "\xE5\xA5\xBD",
    "un",       "##believ",     "##able",
    "a",        "##a",          "\xC4\xB0",
    "i",        "\xE1\x84\x80", "##\xE1\x85\xA1",
    "Caf",      "##\xC3\xA9",   "Hello",
    "\xC3\xA9", "##t",          "E",
    "-",
};

static const struct {
    const char *text, *lower, *cased;
} rows[] = {
    {"Hello, world!", "5 11 6 7 12", "26 11 6 7 12"},
    {"unbelievable", "15 16 17", "15 16 17"},
    {"caf\xC3\xA9 CAFE\xCC\x81 Caf\xC3\xA9", "10 10 10", "1 1 24 25"},
    {"\xE4\xBD\xA0\xE5\xA5\xBDhello", "13 14 5", "13 14 5"},
    {"[MASK] [mask] x[SEP]y", "4 1 1 1 1 3 1", "4 1 1 1 1 3 1"},
    {"hello\xC2\xA0\xE2\x80\x8B\tworld\a", "5 6 7", "5 6 7"},
    {"\xC4\xB0", "21", "20"},
    {"\xEA\xB0\x80", "22 23", "1"},
    {"e-te", "8 30 1", "8 30 1"},
    {"  ", "", ""},
    {"", "", ""},
    {"\xC3\xA9t\xC3\xA9 \xC3\x89t\xC3\xA9", "8 9 8 9", "27 28 25 1"},
    {"hello\xE2\x80\x94hello!!", "5 1 5 12 12", "5 1 5 12 12"},
    {"\xFFhello\xFF", "5", "5"}, /* bytes that are not UTF-8 are U+FFFD, which is removed */
};

static const char *write_vocabulary(void)
{
    char text[1024] = "";

    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        strcat(text, tokens[i]);
        strcat(text, i % 2 ? "\n" : " \r\n");
    }
    return write_text("vocab.txt", text);
}

static void test_ids(void)
{
    struct tokenizer_config lower = {.type = TOKENIZER_BERT_LOWER_CASE};
    struct tokenizer_config cased = {.type = TOKENIZER_BERT_CASE};
    char a[102];

    lower.vocab_file = cased.vocab_file = write_vocabulary();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        is(ids_of(lower, rows[i].text), rows[i].lower, rows[i].text);
        is(ids_of(cased, rows[i].text), rows[i].cased, rows[i].text);
    }
    memset(a, 'a', 101);
    a[101] = '\0';
    is(ids_of(lower, a), "1", "a word of 101 characters is unknown");
    ok(strncmp(ids_of(lower, a + 1), "18 19 19", 8) == 0, "one of 100 is not");
    lower.special_as_text = 1;
    is(ids_of(lower, "[SEP]"), "1 1 1", "special tokens as text");
}

/* A word that is longer than a chunk of the splitter. */
static void test_long(void)
{
    struct tokenizer_config config = {.type = TOKENIZER_BERT_CASE,
                                      .vocab_file = write_vocabulary()};
    char *text = malloc(20001);

    memset(text, 'a', 20000);
    text[20000] = '\0';
    is(ids_of(config, text), "1", "a word of 20000 bytes");
    memset(text, ' ', 19999);
    is(ids_of(config, text), "18", "white space of 19999 bytes");
    free(text);
}

static void test_properties(void)
{
    struct tokenizer *tokenizer =
        tokenizer_create(&(struct tokenizer_config){.type = TOKENIZER_BERT_LOWER_CASE,
                                                    .vocab_file = write_vocabulary()},
                         &err);
    struct text_buffer out = {0};

    ok(tokenizer != NULL, "a vocabulary");
    is_int(tokenizer_eod(tokenizer), 3, "a document ends with [SEP]");
    is_int(tokenizer_bos(tokenizer), 2, "a sequence begins with [CLS]");
    is_int(tokenizer_vocab_size(tokenizer), 31, "its size");
    ok(tokenizer_decode(tokenizer, (int64_t[]){6, 7, 11, 15, 16, 17}, 6, &out, &err) == 0 &&
           out.length == 20 && memcmp(out.data, "world , unbelievable", 20) == 0,
       "decoded words");
    text_buffer_clear(&out);
    tokenizer_destroy(tokenizer);
}

static void test_refusals(void)
{
    is(refusal((struct tokenizer_config){.type = TOKENIZER_BERT_CASE}),
       "BertWordPieceCase needs a vocabulary file, BERT's vocab.txt; name it with --vocab-file",
       "no file");
    is(refusal((struct tokenizer_config){.type = TOKENIZER_BERT_CASE,
                                         .vocab_file = write_text("vocab.txt", "")}),
       "vocab.txt: the vocabulary is empty", "an empty file");
    is(refusal((struct tokenizer_config){.type = TOKENIZER_BERT_LOWER_CASE,
                                         .vocab_file = write_text("vocab.txt", "a\nb\n")}),
       "vocab.txt: the vocabulary has no token [PAD], which BERT's tokenizer needs",
       "no special tokens");
}

/* Nine tokens of a million letters each. */
static void test_large(void)
{
    const size_t count = 9, length = 1000000;
    char *text = malloc(count * (length + 1));

    for (size_t i = 0; i < count; i++) {
        memset(text + i * (length + 1), 'a' + (int)i, length);
        text[i * (length + 1) + length] = '\n';
    }
    is(refusal((struct tokenizer_config){.type = TOKENIZER_BERT_CASE,
                                         .vocab_file =
                                             write_file("vocab.txt", text, count * (length + 1))}),
       "vocab.txt: the tokens of the vocabulary have 9000000 different prefixes, which do not fit "
       "into 8388608 entries, the most that are supported" OTHER,
       "too many prefixes are not taken for a lack of memory");
    free(text);
}

int main(void)
{
    if (!mkdtemp(directory))
        return skip_all("no directory for files");
    test_ids();
    test_long();
    test_properties();
    test_refusals();
    test_large();
    remove_files();
    return done_testing();
}
