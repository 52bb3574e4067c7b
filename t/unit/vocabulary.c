/* Hostile and broken vocabularies: refused with a sentence that names file and place. And the
 * readers of protocol buffers and JSON on their own. */
#include "tap.h"
#include "json.h"
#include "protobuf.h"
#include "tokenizer.h"

#include <stdlib.h>
#include <unistd.h>

static struct error err;
static char directory[] = "/tmp/megatron-vocabulary-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[4][256];
    static int turn;

    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", directory, name);
    return path[turn];
}

static const char *write_file(const char *name, const void *data, size_t length)
{
    const char *path = path_of(name);
    FILE *file = fopen(path, "wb");

    if (!file || fwrite(data, 1, length, file) != length || fclose(file) != 0)
        ok(0, "cannot write %s", path);
    return path;
}

static const char *write_text(const char *name, const char *text)
{
    return write_file(name, text, strlen(text));
}

/* The error of creating a tokenizer, with the directory cut out. */
static const char *refusal(struct tokenizer_config config)
{
    static char text[2048];
    struct tokenizer *tokenizer = tokenizer_create(&config, &err);
    char *at;

    if (tokenizer) {
        tokenizer_destroy(tokenizer);
        return "(accepted)";
    }
    snprintf(text, sizeof(text), "%s", err.text);
    while ((at = strstr(text, directory)))
        memmove(at, at + strlen(directory) + 1, strlen(at + strlen(directory) + 1) + 1);
    return text;
}

/* The ids of a text, or the sentence that refuses the vocabulary. */
static const char *ids_of_bytes(struct tokenizer_config config, const char *text, size_t bytes)
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

static const char *ids_of(struct tokenizer_config config, const char *text)
{
    return ids_of_bytes(config, text, strlen(text));
}

/* All bytes as GPT-2 writes them, then 'more'. */
static char *byte_vocabulary(const char *more)
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

static void test_gpt2(void)
{
    static const struct {
        const char *more, *merges, *sentence;
    } rows[] = {
        {"\"ab\":256,\"<|endoftext|>\":257", "#version: 0.2\na b\n", "(accepted)"},
        {"\"ab\":256,\"<|endoftext|>\":257", "a b\r\n", "(accepted)"},
        {"\"ab\":256", "a b\n",
         "vocab.json: there is no token <|endoftext|>, which ends documents"},
        {"\"ab\":256,\"<|endoftext|>\":257", "a b\na c\n",
         "merges.txt, line 2: the two make a token that is not in the vocabulary"},
        {"\"<|endoftext|>\":256", "\nab c\n",
         "merges.txt, line 2: token \"ab\" is not in the vocabulary"},
        {"\"<|endoftext|>\":256", "a\n",
         "merges.txt, line 1: should be two tokens with a space between them"},
        {"\"<|endoftext|>\":256", "a b c\n",
         "merges.txt, line 1: should be two tokens with a space between them"},
        {"\"ab\":7", "", "vocab.json: token \"ab\": id 7 is given twice"},
        {"\"ab\":-1", "", "vocab.json: token \"ab\": id -1 is outside 0 to 2097150"},
        {"\"ab\":99999999999", "",
         "vocab.json: token \"ab\": id 99999999999 is outside 0 to 2097150"},
        {"\"ab\":\"x\"", "", "vocab.json: the id of token \"ab\" is no whole number"},
        {"\"ab\":1.5", "", "vocab.json: the id of token \"ab\" is no whole number"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *vocabulary = write_text("vocab.json", byte_vocabulary(rows[i].more));
        const char *merges = write_text("merges.txt", rows[i].merges);

        is(refusal((struct tokenizer_config){.vocab_file = vocabulary, .merge_file = merges}),
           rows[i].sentence, rows[i].sentence);
    }
    is(refusal((struct tokenizer_config){.vocab_file = write_text("vocab.json", "{\"a\":0}"),
                                         .merge_file = path_of("merges.txt")}),
       "vocab.json: the vocabulary has no token for byte 0x00", "bytes are missing");
    is(refusal((struct tokenizer_config){.vocab_file = write_text("vocab.json", "[1]"),
                                         .merge_file = path_of("merges.txt")}),
       "vocab.json: should be an object of tokens and ids", "no object");
    is(refusal((struct tokenizer_config){.vocab_file = path_of("nowhere"), .merge_file = "x"}),
       "cannot open nowhere: No such file or directory", "no file");
    ok(strstr(refusal((struct tokenizer_config){.vocab_file = write_text("vocab.json", "{\"a\":"),
                                                .merge_file = path_of("merges.txt")}),
              "vocab.json: is no valid JSON") != NULL,
       "cut JSON");
}

static void test_ranks(void)
{
    static const struct {
        const char *text, *sentence;
    } rows[] = {
        {"", "ranks: the vocabulary has no token for byte 0x00"},
        {"YQ== 0\nYQ 1\n", "ranks, line 2: \"YQ\" is no base64"},
        {"YQ== 0\n!Q== 1\n", "ranks, line 2: \"!Q==\" is no base64"},
        {"YQ== 0\nYg== 0\n", "ranks, line 2: id 0 is given twice"},
        {"YQ==\n", "ranks, line 1: should be a token in base64, a space and its rank"},
        {"YQ== x\n", "ranks, line 1: should end with a rank"},
        {"YQ== 99999999999999999999\n", "ranks, line 1: should end with a rank"},
        {"[{\"rank\":1}]", "ranks: item 0 should hold \"rank\": 0 and \"token_bytes\""},
        {"[{\"rank\":0,\"token_bytes\":\"*\"}]", "ranks: item 0: \"*\" is no base64"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is(refusal((struct tokenizer_config){.type = TOKENIZER_TIKTOKEN,
                                             .model = write_text("ranks", rows[i].text)}),
           rows[i].sentence, rows[i].sentence);
}

/* tokenizer.json: what is not known is refused by name. */
static void test_huggingface(void)
{
#define BYTE_LEVEL "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define METASPACE  "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\"}"
#define SMALL      "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]"
    static const struct {
        const char *text, *sentence;
    } rows[] = {
        {"{" METASPACE ",\"model\":{\"type\":\"BPE\"," SMALL "}}", "(accepted)"},
        {"{" METASPACE ",\"model\":{\"type\":\"Unigram\"}}",
         "tokenizer.json: model Unigram is not supported"},
        {"{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\"}}",
         "tokenizer.json: model WordPiece is not supported"},
        {"{\"model\":{\"type\":\"Unigram\"}}", "tokenizer.json: model Unigram is not supported"},
        {"{" BYTE_LEVEL ",\"normalizer\":{\"type\":\"NFKC\"}}",
         "tokenizer.json: normalizer NFKC is not supported"},
        {"{" METASPACE ",\"normalizer\":{\"type\":\"NFC\"}}",
         "tokenizer.json: normalizer NFC without ByteLevel is not supported"},
        {"{\"pre_tokenizer\":{\"type\":\"Whitespace\"}}",
         "tokenizer.json: pre_tokenizer Whitespace is not supported"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x\"},\"behavior\":"
         "\"Isolated\"}}",
         "tokenizer.json: pre_tokenizer Split with this pattern is not supported"},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true}}",
         "tokenizer.json: pre_tokenizer ByteLevel with add_prefix_space is not supported"},
        {"{" METASPACE ",\"model\":{\"type\":\"BPE\",\"dropout\":0.1," SMALL "}}",
         "tokenizer.json: model BPE with dropout is not supported"},
        {"{" METASPACE ",\"model\":{\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\"," SMALL "}}",
         "tokenizer.json: model BPE with end_of_word_suffix is not supported"},
        {"{" METASPACE ",\"model\":{\"type\":\"BPE\",\"byte_fallback\":true," SMALL "}}",
         "tokenizer.json: byte_fallback without a token <0x00>"},
        {"{" METASPACE ",\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a c\"]}}",
         "tokenizer.json: merge 0: token \"c\" is not in the vocabulary"},
        {"{" METASPACE
         ",\"added_tokens\":[{\"id\":3,\"content\":\"<m>\",\"lstrip\":true}],\"model\":{"
         "\"type\":\"BPE\"," SMALL "}}",
         "tokenizer.json: added token <m> with lstrip is not supported"},
        {"{" METASPACE ",\"model\":{\"type\":\"BPE\",\"ignore_merges\":true," SMALL "}}",
         "tokenizer.json: model BPE with ignore_merges is not supported where no pattern splits "
         "texts into words"},
        {"{" METASPACE "}", "tokenizer.json: there is no \"model\""},
        {"[]", "tokenizer.json: should be an object"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        write_text("tokenizer.json", rows[i].text);
        is(refusal((struct tokenizer_config){.type = TOKENIZER_HUGGINGFACE, .model = directory}),
           rows[i].sentence, rows[i].sentence);
    }
}

/* Pipelines and added tokens in combinations: the ids of Hugging Face's tokenizers 0.23, or a
 * refusal. */
static void test_combinations(void)
{
#define MARK         "\xE2\x96\x81"
#define PREPEND      "{\"type\":\"Prepend\",\"prepend\":\"" MARK "\"}"
#define REPLACE      "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK "\"}"
#define NORMAL(list) "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" list "]},"
#define PRE(list)    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" list "]},"
#define META(scheme) "{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\"" scheme "}"
#define NEVER        META(",\"prepend_scheme\":\"never\"")
#define LEVEL        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define DIGITS                                                                                 \
    "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"'s|'t|'re|'ve|'m|" \
    "'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+\"}}"
#define ADDED(list) "\"added_tokens\":[" list "],"
#define TOKEN(id, text, normalized) \
    "{\"id\":" #id ",\"content\":\"" text "\",\"normalized\":" #normalized "}"
#define UNKNOWN "\"unk_token\":\"<unk>\",\"fuse_unk\":true,"
    static const struct {
        const char *head, *model, *text, *ids;
    } rows[] = {
        {PRE(NEVER) ADDED(TOKEN(0, "<unk>", false)), UNKNOWN, "xyx", "0"},
        {PRE(NEVER) ADDED(TOKEN(0, "<unk>", false)), UNKNOWN, "xx<unk>yy<unk><unk>", "0 0 0 0 0"},
        {PRE(NEVER), "\"unk_token\":\"<no>\",", "a",
         "tokenizer.json: unk_token \"<no>\" is not in the vocabulary"},
        {NORMAL(PREPEND "," REPLACE), "", "a b", "3 1 3 2"},
        {NORMAL(PREPEND "," REPLACE) PRE(NEVER), "", " a b", "3 3 1 3 2"},
        {NORMAL(PREPEND "," REPLACE) PRE(META("")), "", " a b", "3 3 1 3 2"},
        {NORMAL(REPLACE) PRE(META("")), "", " a b", "3 1 3 2"},
        {NORMAL(PREPEND "," PREPEND "," REPLACE), "", "a",
         "tokenizer.json: normalizer Prepend for the second time is not supported"},
        {PRE(META("") "," NEVER), "", "a",
         "tokenizer.json: pre_tokenizer Metaspace for the second time is not supported"},
        {PRE(META(",\"prepend_scheme\":\"seldom\"")), "", "a",
         "tokenizer.json: pre_tokenizer Metaspace with this prepend_scheme is not supported"},
        {PRE(META(",\"prepend_scheme\":\"first\",\"add_prefix_space\":false")), "", "a",
         "tokenizer.json: pre_tokenizer Metaspace with a prepend_scheme but without "
         "add_prefix_space is not supported"},
        {PRE(LEVEL "," LEVEL), "", "a",
         "tokenizer.json: pre_tokenizer ByteLevel for the second time is not supported"},
        {PRE(LEVEL "," DIGITS), "", "a",
         "tokenizer.json: pre_tokenizer Split behind ByteLevel is not supported"},
        /* Tokens that are not normalised are found before those that are. */
        {PRE(NEVER) ADDED(TOKEN(5, "ab", true) "," TOKEN(6, "ba", false)), "", "abab", "1 6 2"},
        {PRE(NEVER) ADDED(TOKEN(5, "ab", true) "," TOKEN(6, "ba", false)), "", "aabbaab",
         "1 5 6 5"},
        /* In the vocabulary, behind it, and neither. */
        {PRE(NEVER) ADDED(TOKEN(4, "bb", false) "," TOKEN(5, "<x>", false)), "", "abb<x>", "1 4 5"},
        {PRE(NEVER) ADDED(TOKEN(6, "<x>", false)), "", "a",
         "tokenizer.json: added token <x> has id 6, and Hugging Face would give it 5"},
        {PRE(NEVER) ADDED(TOKEN(2, "<x>", false)), "", "a",
         "tokenizer.json: added token <x> has id 2, and Hugging Face would give it 5"},
        {PRE(NEVER) ADDED(TOKEN(5, "bb", false)), "", "a",
         "tokenizer.json: added token bb has id 5, and Hugging Face would give it 4"},
    };
    static char text[4096];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tokenizer_config config = {.type = TOKENIZER_HUGGINGFACE, .model = directory};

        snprintf(text, sizeof(text),
                 "{%s\"model\":{\"type\":\"BPE\",%s\"vocab\":{\"<unk>\":0,\"a\":1,\"b\":2,\"" MARK
                 "\":3,\"bb\":4},\"merges\":[\"b b\"]}}",
                 rows[i].head, rows[i].model);
        write_text("tokenizer.json", text);
        is(ids_of(config, rows[i].text), rows[i].ids, rows[i].ids);
    }
}

/* ignore_merges: a word that is a token is that token, a part of a longer word is not. */
static void test_whole_words(void)
{
    static const struct {
        const char *text, *ids;
    } rows[] = {
        {"xyz", "256"},
        {"xyzA", "120 121 122 65"},
        {"xyzAAAAAAAAAAAAAAAA", "120 121 122 65 65 65 65 65 65 65 65 65 65 65 65 65 65 65 65"},
        {"AAAAAAAAAAAAAAAAxyz", "65 65 65 65 65 65 65 65 65 65 65 65 65 65 65 65 120 121 122"},
        {"xyz!xyzAAAAAAAAAAAAAAAA!xyz",
         "256 33 120 121 122 65 65 65 65 65 65 65 65 65 65 65 65 65 65 65 65 33 256"},
        {"abcdefghijklmnopq", "257"},
    };
    char text[10000];
    struct tokenizer_config config = {.type = TOKENIZER_HUGGINGFACE};

    snprintf(text, sizeof(text),
             "{" BYTE_LEVEL ",\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":%s,"
             "\"merges\":[]}}",
             byte_vocabulary("\"xyz\":256,\"abcdefghijklmnopq\":257"));
    config.model = write_text("tokenizer.json", text);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        is(ids_of(config, rows[i].text), rows[i].ids, rows[i].text);
}

/* NFC: texts are composed before words are cut. A token that is not normalised is found before, one
 * that is, in what comes out. */
static void test_composed(void)
{
#define NFC "\"normalizer\":{\"type\":\"NFC\"},"
    static const struct {
        const char *tokens, *text, *ids;
    } rows[] = {
        {"", "e", "101"},
        {"", "\u00E9", "195 169"},
        {"", "e\u0301", "195 169"},
        {"", "xe\u0301x", "120 195 169 120"},
        {"", "\xCC\xFF\xCC\x81", "204 255 204 129"},
        {TOKEN(257, "<e>", false), "<e>\u0338", "257 204 184"},
        {TOKEN(257, "<e>", true), "<e>\u0338", "60 101 226 137 175"},
        {TOKEN(257, "<e>", true), "e\u0301<e>e\u0301<e>", "195 169 257 195 169 257"},
        {TOKEN(257, "<e>", true) "," TOKEN(258, "<f>", false), "<e><f>e\u0301<e>",
         "257 258 195 169 257"},
        {TOKEN(257, "e\u0301", false), "e\u0301\u00E9", "257 195 169"},
        {TOKEN(257, "e\u0301", true), "",
         "tokenizer.json: added token e\u0301 with normalized is not supported: it is not in form "
         "C"},
    };
    struct tokenizer_config config = {.type = TOKENIZER_HUGGINGFACE};
    static char text[10000];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(text, sizeof(text),
                 "{" BYTE_LEVEL "," NFC ADDED("%s") "\"model\":{\"type\":\"BPE\",\"vocab\":%s,"
                                                    "\"merges\":[]}}",
                 rows[i].tokens, byte_vocabulary("\"zz\":256"));
        config.model = write_text("tokenizer.json", text);
        is(ids_of(config, rows[i].text), rows[i].ids, rows[i].ids);
    }
    snprintf(text, sizeof(text),
             "{" BYTE_LEVEL "," NFC "\"model\":{\"type\":\"BPE\",\"vocab\":%s,\"merges\":[]}}",
             byte_vocabulary("\"zz\":256"));
    config.model = write_text("tokenizer.json", text);
    is(ids_of_bytes(config, "", UINT32_MAX / 3),
       "a text of 1431655765 bytes; at most 1431655764 can be encoded",
       "texts may become three times as long");
}

/* The special tokens that a post-processor puts around a text, when they are wanted. */
static void test_post_processor(void)
{
#define SPECIAL(name)  "{\"SpecialToken\":{\"id\":\"" name "\",\"type_id\":0}}"
#define TEXT           "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
#define TEMPLATE(list) "{\"type\":\"TemplateProcessing\",\"single\":[" list "]," NAMED "}"
#define NAMED                                                                             \
    "\"special_tokens\":{\"x\":{\"id\":\"x\",\"ids\":[3,4],\"tokens\":[]},\"y\":{\"id\":" \
    "\"y\",\"ids\":[9],\"tokens\":[]},\"gap\":{\"id\":\"gap\",\"ids\":[5],\"tokens\":[]}}"
    static const struct {
        const char *component, *ids; /* of "ab", or the refusal */
    } rows[] = {
        {"null", "2"},
        {"{\"type\":\"ByteLevel\"}", "2"},
        {TEMPLATE(SPECIAL("x") "," TEXT), "3 4 2"},
        {TEMPLATE(SPECIAL("x") "," TEXT "," SPECIAL("x")), "3 4 2 3 4"},
        {"{\"type\":\"RobertaProcessing\",\"sep\":[\"b\",1],\"cls\":[\"a\",0]}", "0 2 1"},
        {"{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"}," TEMPLATE(
             SPECIAL("x") "," TEXT) "]}",
         "3 4 2"},
        {"{\"type\":\"Sequence\",\"processors\":[" TEMPLATE(SPECIAL("x") "," TEXT) "," TEMPLATE(
             SPECIAL("x") "," TEXT) "]}",
         "tokenizer.json: post_processor TemplateProcessing behind another one that adds tokens is "
         "not supported"},
        {TEMPLATE(SPECIAL("y") "," TEXT),
         "tokenizer.json: post_processor: the id of a special token is not in the vocabulary"},
        {TEMPLATE(SPECIAL("gap") "," TEXT),
         "tokenizer.json: post_processor: the id of a special token is not in the vocabulary"},
        {TEMPLATE(SPECIAL("z") "," TEXT),
         "tokenizer.json: post_processor: a special token of the template has no ids"},
        {TEMPLATE(SPECIAL("x")),
         "tokenizer.json: post_processor TemplateProcessing with this template is not supported"},
        {"{\"type\":\"Other\"}", "tokenizer.json: post_processor Other is not supported"},
    };
    static char text[4096];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tokenizer_config config = {
            .type = TOKENIZER_HUGGINGFACE, .model = directory, .add_specials = 1};

        snprintf(
            text, sizeof(text),
            "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\","
            "\"prepend_scheme\":\"never\"},\"post_processor\":%s,\"model\":{\"type\":\"BPE\","
            "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"c\":3,\"d\":4,\"e\":6},\"merges\":[\"a b\"]}}",
            rows[i].component);
        write_text("tokenizer.json", text);
        is(ids_of(config, "ab"), rows[i].ids, rows[i].ids);
    }
    is(refusal((struct tokenizer_config){.add_specials = 1}),
       "--tokenizer-hf-include-special-tokens is for HuggingFaceTokenizer; for others there is "
       "--tokenizer-add-bos",
       "it is for tokenizer.json only");
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
    size_t length = sizeof(model) - 1, sentences = 0, accepted = 0;

    is(refusal((struct tokenizer_config){.type = TOKENIZER_LLAMA2,
                                         .model = write_file("model", model, length)}),
       "(accepted)", "a small SentencePiece model");
    for (size_t cut = 0; cut < length; cut++) {
        const char *text = refusal((struct tokenizer_config){
            .type = TOKENIZER_LLAMA2, .model = write_file("model", model, cut)});

        sentences += strstr(text, "model") != NULL;
    }
    is_int((long long)sentences, (long long)length, "every cut is refused by the file's name");
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
    ok(json_read(deep, sizeof(deep), &err) == NULL && strstr(err.text, "is no valid JSON"),
       "2048 levels are too deep: %s", err.text);
    ok(json_read("\"\xFF\"", 3, &err) == NULL, "no UTF-8: %s", err.text);
    ok(json_read("", 0, &err) == NULL, "nothing: %s", err.text);
}

int main(void)
{
    static const char *const names[] = {"vocab.json", "merges.txt", "ranks", "tokenizer.json",
                                        "model"};

    if (!mkdtemp(directory))
        return skip_all("no directory for files");
    test_gpt2();
    test_ranks();
    test_huggingface();
    test_combinations();
    test_whole_words();
    test_composed();
    test_post_processor();
    test_protobuf();
    test_sentencepiece();
    test_cut_model();
    test_json();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unlink(path_of(names[i]));
    rmdir(directory);
    return done_testing();
}
