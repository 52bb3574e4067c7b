/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile and broken vocabularies: refused with a sentence that names file and place. And the
 * readers of protocol buffers and JSON on their own. */
#include "vocabulary.h"
#include "base/core/json.h"
#include "data/tokenizer/protobuf.h"

static void test_gpt2(void)
{
    static const struct {
        const char *more, *merges, *sentence;
    } rows[] = {
        {"\"ab\":256,\"<|endoftext|>\":257", "#version: 0.2\na b\n", "(accepted)"},
        {"\"ab\":256,\"<|endoftext|>\":257", "a b\r\n", "(accepted)"},
        {"\"ab\":256", "a b\n", "vocab.json: the end-of-document token <|endoftext|> is missing"},
        {"\"ab\":256,\"<|endoftext|>\":257", "a b\na c\n",
         "merges.txt, line 2: the vocabulary does not contain the token that the two merge to"},
        {"\"<|endoftext|>\":256", "\nab c\n",
         "merges.txt, line 2: token \"ab\" is not in the vocabulary"},
        {"\"<|endoftext|>\":256", "a\n",
         "merges.txt, line 1: the line is not two tokens with one space between them"},
        {"\"<|endoftext|>\":256", "a b c\n",
         "merges.txt, line 1: the line is not two tokens with one space between them"},
        {"\"ab\":7", "", "vocab.json: token \"ab\": id 7 belongs to another token already"},
        {"\"ab\":-1", "",
         "vocab.json: token \"ab\": its id is -1, but token ids cannot be negative"},
        {"\"ab\":99999999999", "",
         "vocab.json: token \"ab\": id 99999999999 is above 2097150, the largest that is "
         "supported" OTHER},
        {"\"ab\":\"x\"", "", "vocab.json: the id of token \"ab\" is not an integer"},
        {"\"ab\":1.5", "", "vocab.json: the id of token \"ab\" is not an integer"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *vocabulary = write_text("vocab.json", byte_vocabulary(rows[i].more));
        const char *merges = write_text("merges.txt", rows[i].merges);

        is(refusal((struct tokenizer_config){.vocab_file = vocabulary, .merge_file = merges}),
           rows[i].sentence, rows[i].sentence);
    }
    is(refusal((struct tokenizer_config){.vocab_file = write_text("vocab.json", "{\"a\":0}"),
                                         .merge_file = path_of("merges.txt")}),
       "vocab.json: the vocabulary has no token for byte 0x00, so it cannot encode every text",
       "bytes are missing");
    is(refusal((struct tokenizer_config){.vocab_file = write_text("vocab.json", "[1]"),
                                         .merge_file = path_of("merges.txt")}),
       "vocab.json: the file is not a JSON object of tokens and their ids, such as {\"the\": 0, "
       "...}",
       "no object");
    is(err.text + strlen(err.text) - (size_t)err.advice,
       "; get its files again from their source if they are damaged, or choose another tokenizer "
       "(--tokenizer-type)",
       "with a remedy");
    is(refusal((struct tokenizer_config){.vocab_file = path_of("nowhere"), .merge_file = "x"}),
       "cannot open nowhere: No such file or directory", "no file");
    ok(strstr(refusal((struct tokenizer_config){.vocab_file = write_text("vocab.json", "{\"a\":"),
                                                .merge_file = path_of("merges.txt")}),
              "vocab.json: is not valid JSON") != NULL,
       "cut JSON");
}

static void test_ranks(void)
{
    static const struct {
        const char *text, *sentence;
    } rows[] = {
        {"", "ranks: the vocabulary has no token for byte 0x00, so it cannot encode every text"},
        {"YQ== 0\nYQ 1\n", "ranks, line 2: \"YQ\" is not valid base64"},
        {"YQ== 0\n!Q== 1\n", "ranks, line 2: \"!Q==\" is not valid base64"},
        {"YQ== 0\nYg== 0\n", "ranks, line 2: id 0 belongs to another token already"},
        {"YQ==\n", "ranks, line 1: the line is not a token in base64, a space and its rank"},
        {"YQ== x\n", "ranks, line 1: the rank at the end of the line is not a whole number"},
        {"YQ== 99999999999999999999\n",
         "ranks, line 1: the rank at the end of the line is not a whole number"},
        {"[{\"rank\":1}]",
         "ranks: item 0 of the list does not have \"rank\": 0 and \"token_bytes\""},
        {"[{\"rank\":0,\"token_bytes\":\"*\"}]", "ranks: item 0: \"*\" is not valid base64"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is(refusal((struct tokenizer_config){.type = TOKENIZER_TIKTOKEN,
                                             .model = write_text("ranks", rows[i].text)}),
           rows[i].sentence, rows[i].sentence);
}

struct bytes {
    const char *data;
    size_t length;
};

#define BYTES(text)            \
    {                          \
        text, sizeof(text) - 1 \
    }

static void test_protobuf(void)
{
    static const struct {
        struct bytes message;
        int fields; /* read before the end, or before what is broken */
        int last;   /* result of the last call */
    } rows[] = {
        {BYTES(""), 0, 0},
        {BYTES("\x08\x01"), 1, 0},
        {BYTES("\x08\x96\x01\x12\x03"
               "abc\x1D\0\0\x80\x3F\x21"
               "12345678"),
         4, 0},
        {BYTES("\x08"), 0, -1},
        {BYTES("\x08\x80"), 0, -1},
        {BYTES("\x12\x04"
               "abc"),
         0, -1},
        {BYTES("\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"
               "a"),
         0, -1},
        {BYTES("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"), 1, 0},
        {BYTES("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02"), 0, -1},
        {BYTES("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"), 0, -1},
        {BYTES("\x1D\0\0"), 0, -1},
        {BYTES("\x0B"), 0, -1},
        {BYTES("\x00\x01"), 0, -1},
        {BYTES("\x0F\x01"), 0, -1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        /* Of the exact size, so that a sanitizer sees a read too far. */
        char *copy = malloc(rows[i].message.length + !rows[i].message.length);
        struct protobuf state;
        struct protobuf_field field;
        int fields = 0, rc;

        memcpy(copy, rows[i].message.data, rows[i].message.length);
        state = protobuf_open(copy, rows[i].message.length);
        while ((rc = protobuf_next(&state, &field)) > 0)
            fields++;
        ok(fields == rows[i].fields && rc == rows[i].last, "message %zu: %d fields, then %d", i,
           fields, rc);
        free(copy);
    }
}

/* A user-defined piece with plain spaces is never found, as in sentencepiece, and the model says
 * what unknown characters are decoded to. */
static void test_sentencepiece(void)
{
    static const char model[] = "\x0A\x0E\x0A\x05<unk>\x15\0\0\0\0\x18\x02"
                                "\x0A\x08\x0A\x01"
                                "a\x15\0\0\0\0"
                                "\x0A\x08\x0A\x01"
                                "b\x15\0\0\0\0"
                                "\x0A\x0B\x0A\x02  \x15\0\0\0\0\x18\x04"
                                "\x0A\x0A\x0A\x03\xE2\x96\x81\x15\0\0\0\0"
                                "\x0A\x0D\x0A\x04\xE2\x96\x81"
                                "b\x15\0\0\0\0\x18\x04"
                                "\x12\x07\x18\x02\xE2\x02\x02??"
                                "\x1A\x04\x18\0\x20\0";
    struct tokenizer_config config = {.type = TOKENIZER_LLAMA2,
                                      .model = write_file("model", model, sizeof(model) - 1)};
    struct tokenizer *tokenizer;
    struct text_buffer text = {0};

    is(ids_of(config, "a  a"), "1 4 4 1", "a piece of two plain spaces");
    is(ids_of(config, "a  b"), "1 4 5", "and one of a marked space");
    is(ids_of(config, "axb"), "1 0 2", "an unknown character");
    tokenizer = tokenizer_create(&config, &err);
    if (ok(tokenizer && tokenizer_decode(tokenizer, (int64_t[]){1, 0, 4, 2}, 4, &text, &err) == 0,
           "decoded"))
        ok(text.length == 5 && memcmp(text.data, "a?? b", 5) == 0, "as its model says");
    text_buffer_clear(&text);
    tokenizer_destroy(tokenizer);
}

/* What a model has, and this program cannot use. */
static void test_pieces(void)
{
#define UNKNOWN_PIECE "\x0A\x0E\x0A\x05<unk>\x15\0\0\0\0\x18\x02"
#define A_OF_TYPE(type) \
    "\x0A\x0A\x0A\x01"  \
    "a\x15\0\0\0\0\x18" type
    static const struct {
        struct bytes model;
        const char *sentence;
    } rows[] = {
        {BYTES(UNKNOWN_PIECE A_OF_TYPE("\x01")), "(accepted)"},
        {BYTES(UNKNOWN_PIECE UNKNOWN_PIECE),
         "model: pieces 0 and 1 are both the unknown token (<unk>), and only one is allowed"},
        {BYTES(UNKNOWN_PIECE A_OF_TYPE("\x09")),
         "model: piece 1 has type 9, which is not supported" OTHER},
        {BYTES(UNKNOWN_PIECE A_OF_TYPE("\x06")),
         "model: piece 1 is of type BYTE, but its text is not <0x00> to <0xFF>"},
        {BYTES(A_OF_TYPE("\x01")), "model: the vocabulary has no unknown token (<unk>)"},
        {BYTES(UNKNOWN_PIECE "\x12\x02\x18\x03"),
         "model: this SentencePiece model has type WORD; only BPE and UNIGRAM are supported" OTHER},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is(refusal((struct tokenizer_config){
               .type = TOKENIZER_LLAMA2,
               .model = write_file("model", rows[i].model.data, rows[i].model.length)}),
           rows[i].sentence, rows[i].sentence);
}

/* Every cut of a model, and every single bit of its head changed, is a tokenizer or a sentence. */
static void test_cut_model(void)
{
    static const char model[] = "\x0A\x0E\x0A\x05<unk>\x15\0\0\0\0\x18\x02"
                                "\x0A\x08\x0A\x01"
                                "a\x15\0\0\0\0"
                                "\x0A\x08\x0A\x01"
                                "b\x15\0\0\0\0"
                                "\x0A\x09\x0A\x02"
                                "ab\x15\0\0\x80\xBF"
                                "\x12\x02\x18\x02";
    size_t length = sizeof(model) - 1, sentences = 0, accepted = 0, whole = 0;

    is(refusal((struct tokenizer_config){.type = TOKENIZER_LLAMA2,
                                         .model = write_file("model", model, length)}),
       "(accepted)", "a small SentencePiece model");
    for (size_t cut = 0; cut < length; cut++) {
        const char *text = refusal((struct tokenizer_config){
            .type = TOKENIZER_LLAMA2, .model = write_file("model", model, cut)});

        sentences += strstr(text, "model") != NULL;
        whole += strcmp(text, "(accepted)") == 0;
    }
    /* Without the trainer's part it is a Unigram model; a cut after a piece leaves a whole one. */
    is_int((long long)whole, 4, "a cut after a piece leaves a model");
    is_int((long long)(sentences + whole), (long long)length,
           "every other cut is refused by the file's name");
    for (size_t bit = 0; bit < length * 8; bit++) {
        char copy[sizeof(model)];
        const char *text;

        memcpy(copy, model, sizeof(model));
        copy[bit / 8] ^= (char)(1 << bit % 8);
        text = refusal((struct tokenizer_config){.type = TOKENIZER_LLAMA2,
                                                 .model = write_file("model", copy, length)});
        accepted += strcmp(text, "(accepted)") == 0;
        if (!text[0])
            ok(0, "bit %zu: no sentence", bit);
    }
    ok(accepted > 0 && accepted < length * 8, "of changed bits some are refused, none crashes");
}

static void test_json(void)
{
    static const char text[] = "{\"a\":[1,2.5,true,null,\"x\\u0000y\"],\"b\":{\"c\":-7}}";
    struct json *json = json_read(text, sizeof(text) - 1, &err);
    struct json_value value, list;
    struct json_iterator iterator;
    const char *string;
    char deep[4096];
    size_t length;
    int64_t number;
    double real;
    int flag;

    ok(json && json_member(json_root(json), "b", &value) == 0 &&
           json_member(value, "c", &value) == 0 && json_integer(value, &number) == 0 &&
           number == -7,
       "a number in an object in an object");
    ok(json_member(json_root(json), "a", &list) == 0 && json_count(list) == 5, "an array of five");
    json_iterate(list, &iterator);
    ok(json_next(&iterator, NULL, NULL, &value) && json_type(value) == JSON_INTEGER &&
           json_real(value, &real) == 0 && real == 1,
       "a whole number is a real one, too");
    ok(json_next(&iterator, NULL, NULL, &value) && json_real(value, &real) == 0 && real == 2.5 &&
           json_integer(value, &number) < 0,
       "but not the other way round");
    ok(json_next(&iterator, NULL, NULL, &value) && json_bool(value, &flag) == 0 && flag, "true");
    ok(json_next(&iterator, NULL, NULL, &value) && json_type(value) == JSON_NULL, "null");
    ok(json_next(&iterator, NULL, NULL, &value) && json_string(value, &string, &length) == 0 &&
           length == 3 && memcmp(string, "x\0y", 3) == 0 &&
           !json_next(&iterator, NULL, NULL, &value),
       "a text with a NUL in it, and the end");
    ok(json_member(list, "a", &value) < 0 && json_string(list, &string, &length) < 0,
       "an array has no members and is no text");
    json_destroy(json);
    memset(deep, '[', sizeof(deep) / 2);
    memset(deep + sizeof(deep) / 2, ']', sizeof(deep) / 2);
    ok(json_read(deep, sizeof(deep), &err) == NULL && strstr(err.text, "is not valid JSON"),
       "2048 levels are too deep: %s", err.text);
    ok(json_read("\"\xFF\"", 3, &err) == NULL, "no UTF-8: %s", err.text);
    ok(json_read("", 0, &err) == NULL, "nothing: %s", err.text);
}

int main(void)
{
    if (!mkdtemp(directory))
        return skip_all("no directory for files");
    test_gpt2();
    test_ranks();
    test_protobuf();
    test_sentencepiece();
    test_pieces();
    test_cut_model();
    test_json();
    remove_files();
    return done_testing();
}
