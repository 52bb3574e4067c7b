/* SPDX-License-Identifier: Apache-2.0 */
/* Unigram in a tokenizer.json and in a SentencePiece model: the ids of Hugging Face's tokenizers
 * 0.23 and of sentencepiece 0.2.2. */
#include "vocabulary.h"

#define MARK "\xE2\x96\x81"
#define META "{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\"}"
#define PIECES                                                                                    \
    "[\"<unk>\",0],[\"<s>\",0],[\"</s>\",0],[\"" MARK "\",-2],[\"a\",-3],[\"b\",-3],[\"ab\",-5]," \
    "[\"" MARK "a\",-4],[\"abab\",-11],[\"c\",-6],[\"" MARK "the\",-2.5],[\"t\",-7],[\"h\",-7],"  \
    "[\"e\",-6.5],[\"\xC3\xA9\",-8]"

enum pipeline { META_ONLY, WORDS_ONLY, CHAIN_ONLY };
static const char *const pipelines[] = {
    "\"pre_tokenizer\":" META,
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"}"
    "," META "]}",
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":"
    "\"Lowercase\"},{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true},{\"type\":"
    "\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\"" MARK
    "\"}]},\"pre_tokenizer\":" META,
};

static void test_json(void)
{
    static const struct {
        enum pipeline pipeline;
        const char *text, *ids;
    } rows[] = {
        {META_ONLY, "ab", "3 6"},
        {META_ONLY, "abab the", "3 6 6 10"},
        {META_ONLY, "xyzab", "3 0 6"},
        {META_ONLY, "a  b", "7 3 3 5"},
        {META_ONLY, " a", "7"},
        {META_ONLY, "a</s>b", "7 2 3 5"},
        {META_ONLY, "the\xE2\x96\x81the", "10 10"},
        {META_ONLY, "e\xCC\x81", "3 13 0"},
        {META_ONLY, "ab\nab", "3 6 0 6"},
        {META_ONLY,
         "THE \xEF\xBD\x81"
         "b",
         "3 0 3 0 5"},
        {META_ONLY, "", ""},
        {WORDS_ONLY, "ab", "3 6"},
        {WORDS_ONLY, "abab the", "3 6 6 10"},
        {WORDS_ONLY, "xyzab", "3 0 6"},
        {WORDS_ONLY, "a  b", "7 3 5"},
        {WORDS_ONLY, " a", "7"},
        {WORDS_ONLY, "a</s>b", "7 2 3 5"},
        {WORDS_ONLY, "the\xE2\x96\x81the", "10 10"},
        {WORDS_ONLY, "e\xCC\x81", "3 13 0"},
        {WORDS_ONLY, "ab\nab", "3 6 3 6"},
        {WORDS_ONLY,
         "THE \xEF\xBD\x81"
         "b",
         "3 0 3 0 5"},
        {WORDS_ONLY, "", ""},
        {CHAIN_ONLY, "ab", "3 6"},
        {CHAIN_ONLY, "abab the", "3 6 6 10"},
        {CHAIN_ONLY, "xyzab", "3 0 6"},
        {CHAIN_ONLY, "a  b", "7 3 5"},
        {CHAIN_ONLY, " a", "7"},
        {CHAIN_ONLY, "a</s>b", "7 2 3 5"},
        {CHAIN_ONLY, "the\xE2\x96\x81the", "10 10"},
        {CHAIN_ONLY, "e\xCC\x81", "3 14"},
        {CHAIN_ONLY, "ab\nab", "3 6 0 6"},
        {CHAIN_ONLY,
         "THE \xEF\xBD\x81"
         "b",
         "10 3 6"},
        {CHAIN_ONLY, "", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tokenizer_config config = {.type = TOKENIZER_HUGGINGFACE, .model = directory};
        char text[4096];

        snprintf(text, sizeof(text),
                 "{%s,\"added_tokens\":[{\"id\":2,\"content\":\"</s>\",\"special\":true}],"
                 "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[" PIECES "]}}",
                 pipelines[rows[i].pipeline]);
        write_text("tokenizer.json", text);
        is(ids_of(config, rows[i].text), rows[i].ids, rows[i].text);
    }
}

/* Append one piece of a SentencePiece model. */
static size_t put_piece(char *out, const char *piece, float score, int type)
{
    size_t length = strlen(piece), made = 0;

    out[made++] = 0x0A;
    out[made++] = (char)(length + 9);
    out[made++] = 0x0A;
    out[made++] = (char)length;
    memcpy(out + made, piece, length);
    made += length;
    out[made++] = 0x15;
    memcpy(out + made, &score, 4);
    made += 4;
    out[made++] = 0x18;
    out[made++] = (char)type;
    return made;
}

/* A model whose normalizer squeezes spaces; 'bytes': with byte fallback. */
static const char *write_model(int bytes)
{
    static const struct {
        const char *piece;
        float score;
        int type;
    } pieces[] = {
        {"<unk>", 0, 2},  {"<s>", 0, 3},       {"</s>", 0, 3},     {MARK, -2, 1}, {"a", -3, 1},
        {"b", -3, 1},     {"ab", -5, 1},       {MARK "a", -4, 1},  {"c", -6, 1},  {"xy", -1, 4},
        {"unused", 0, 5}, {MARK "the", -2, 1}, {MARK "cc", -3, 1},
    };
    static char model[8192];
    size_t length = 0;

    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
        length += put_piece(model + length, pieces[i].piece, pieces[i].score, pieces[i].type);
    for (int byte = 0; bytes && byte < 256; byte++) {
        char piece[8];

        snprintf(piece, sizeof(piece), "<0x%02X>", byte);
        length += put_piece(model + length, piece, 0, 6);
    }
    if (bytes) { /* byte_fallback is field 35 */
        memcpy(model + length, "\x12\x05\x18\x01\x98\x02\x01", 7);
        length += 7;
    }
    return write_file("model", model, length);
}

static void test_model(void)
{
    static const struct {
        const char *text, *ids, *bytes;
    } rows[] = {
        {"ab", "3 6", "3 6"},
        {"  a   b  ", "7 3 5", "7 3 5"},
        {"q the", "3 0 11", "3 126 11"},
        {"qqq", "3 0", "3 126 126 126"},
        {"axyb", "7 9 5", "7 9 5"},
        {"unused", "3 0 5 0", NULL},
        {"cc", "12", "12"},
        {"\xC3\xA9", "3 0", "3 208 182"},
        {"\xFF", "3 0", "3 252 204 202"},
        {"", "", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tokenizer_config config = {.type = TOKENIZER_SENTENCEPIECE};

        config.model = write_model(0);
        if (strcmp(rows[i].text, "unused") != 0)
            is(ids_of(config, rows[i].text), rows[i].ids, rows[i].text);
        config.model = write_model(1);
        if (rows[i].bytes)
            is(ids_of(config, rows[i].text), rows[i].bytes, "with byte fallback");
    }
}

int main(void)
{
    if (!mkdtemp(directory))
        return skip_all("no directory for files");
    test_json();
    test_model();
    remove_files();
    return done_testing();
}
