/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json: pipelines that become the ids of Hugging Face, and those that are refused. */
#include "vocabulary.h"

/* What is not known is refused by name. */
static void test_refusals(void)
{
#define BYTE_LEVEL "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define METASPACE  "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\"}"
#define SMALL      "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]"
    static const struct {
        const char *text, *sentence;
    } rows[] = {
        {"{" METASPACE ",\"model\":{\"type\":\"BPE\"," SMALL "}}", "(accepted)"},
        {"{\"model\":{\"type\":\"WordLevel\"}}",
         "tokenizer.json: model WordLevel is not supported" OTHER},
        {"{\"model\":{\"type\":\"Unigram\"}}",
         "tokenizer.json: model Unigram without pre_tokenizer Metaspace is not supported" OTHER},
        {"{" METASPACE ",\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]]}}",
         "tokenizer.json: a Unigram model without an unknown token (unk_id) is not "
         "supported" OTHER},
        {"{" METASPACE ",\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",0]]}}",
         "tokenizer.json: unk_id 1 is not in the vocabulary of 1 tokens"},
        {"{" METASPACE ",\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\"]]}}",
         "tokenizer.json: entry 0 of \"vocab\" is not a piece and its score, such as "
         "[\"the\", -3.5]"},
        {"{" METASPACE ",\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}",
         "tokenizer.json: model WordPiece without pre_tokenizer BertPreTokenizer is not "
         "supported" OTHER},
        {"{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\","
         "\"vocab\":{\"a\":0}}}",
         "tokenizer.json: unk_token \"[UNK]\" is not in the vocabulary"},
        {"{" BYTE_LEVEL ",\"normalizer\":{\"type\":\"ByteLevel\"}}",
         "tokenizer.json: normalizer ByteLevel is not supported" OTHER},
        {"{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}}",
         "tokenizer.json: normalizer Precompiled: the character map is truncated"},
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(?<!a)b\"},\"content\":"
         "\"\"}}",
         "tokenizer.json: normalizer Replace with (?<!a in its pattern is not supported" OTHER},
        {"{\"pre_tokenizer\":{\"type\":\"Whitespace\"}}",
         "tokenizer.json: pre_tokenizer Whitespace is not supported" OTHER},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x++\"},\"behavior\":"
         "\"Isolated\"}}",
         "tokenizer.json: pre_tokenizer Split with a possessive quantifier in its pattern is not "
         "supported" OTHER},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x\"},\"behavior\":"
         "\"Removed\"}}",
         "tokenizer.json: pre_tokenizer Split with this behavior is not supported" OTHER},
        {"{" METASPACE ",\"model\":{\"type\":\"BPE\",\"dropout\":0.1," SMALL "}}",
         "tokenizer.json: model BPE with dropout is not supported" OTHER},
        {"{" METASPACE ",\"model\":{\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\"," SMALL "}}",
         "tokenizer.json: model BPE with end_of_word_suffix is not supported" OTHER},
        {"{" METASPACE ",\"model\":{\"type\":\"BPE\",\"byte_fallback\":true," SMALL "}}",
         "tokenizer.json: byte_fallback is true, but the vocabulary has no token <0x00>"},
        {"{" METASPACE ",\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a c\"]}}",
         "tokenizer.json: merge 0: token \"c\" is not in the vocabulary"},
        {"{" METASPACE
         ",\"added_tokens\":[{\"id\":3,\"content\":\"<m>\",\"single_word\":true}],\"model\":{"
         "\"type\":\"BPE\"," SMALL "}}",
         "tokenizer.json: added token <m> with single_word is not supported" OTHER},
        {"{" METASPACE ",\"model\":{\"type\":\"BPE\",\"ignore_merges\":true," SMALL "}}",
         "tokenizer.json: model BPE with ignore_merges is not supported without a pattern "
         "that splits texts into words" OTHER},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x\"},\"behavior\":"
         "\"Isolated\"},\"model\":{\"type\":\"BPE\"," SMALL "}}",
         "tokenizer.json: a tokenizer that has neither ByteLevel nor \xE2\x96\x81 for spaces "
         "(Metaspace) is not supported" OTHER},
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
         "\"\xE2\x96\x81\"},\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x\"},"
         "\"behavior\":\"Isolated\"},\"model\":{\"type\":\"BPE\"," SMALL "}}",
         "tokenizer.json: pre_tokenizer Split without ByteLevel is not supported" OTHER},
        {"{" METASPACE ",\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-3},\"merges\":[]}}",
         "tokenizer.json: token \"a\": its id is -3, but token ids cannot be negative"},
        {"{" METASPACE ",\"added_tokens\":[{\"id\":-4,\"content\":\"<m>\"}],\"model\":{"
         "\"type\":\"BPE\"," SMALL "}}",
         "tokenizer.json: added token <m>: its id is -4, but token ids cannot be negative"},
        {"{" METASPACE ",\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}",
         "tokenizer.json: the vocabulary is empty"},
        {"{" METASPACE "}", "tokenizer.json: the file has no \"model\""},
        {"[]", "tokenizer.json: the file is not a JSON object"},
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
#define SPLIT(pattern, behavior, invert)                                   \
    "{\"type\":\"Split\",\"behavior\":\"" behavior "\",\"invert\":" invert \
    ",\"pattern\":{\"Regex\":\"" pattern "\"}}"
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
         "tokenizer.json: normalizer Prepend for the second time is not supported" OTHER},
        {PRE(META("") "," NEVER), "", "a",
         "tokenizer.json: pre_tokenizer Metaspace for the second time is not supported" OTHER},
        {PRE(META(",\"prepend_scheme\":\"seldom\"")), "", "a",
         "tokenizer.json: pre_tokenizer Metaspace with this prepend_scheme is not supported" OTHER},
        {PRE(META(",\"prepend_scheme\":\"first\",\"add_prefix_space\":false")), "", "a",
         "tokenizer.json: pre_tokenizer Metaspace with a prepend_scheme but without "
         "add_prefix_space is not supported" OTHER},
        {PRE(LEVEL "," LEVEL), "", "a",
         "tokenizer.json: pre_tokenizer ByteLevel for the second time is not supported" OTHER},
        {PRE(LEVEL "," DIGITS), "", "a b", "1 2"},
        {PRE(SPLIT("b", "Contiguous", "false") "," LEVEL), "", "bbabbbb", "4 1 4 4"},
        {PRE(SPLIT("b", "Contiguous", "true") "," LEVEL), "", "bbabbbb", "4 1 4 4"},
        {PRE(SPLIT("a", "Contiguous", "true") "," LEVEL), "", "bbabbbb", "4 1 4 4"},
        {PRE(SPLIT("b", "Isolated", "true") "," LEVEL), "", "bbabbbb", "2 2 1 2 2 2 2"},
        {PRE(SPLIT("b", "MergedWithPrevious", "false") "," LEVEL), "", "bbabb", "2 2 1 2 2"},
        {PRE(SPLIT("bb", "MergedWithPrevious", "true") "," LEVEL), "", "bbabbb", "4 1 4 2"},
        {PRE(SPLIT("ab", "MergedWithNext", "false") "," LEVEL), "", "abbab", "1 4 1 2"},
        {PRE(SPLIT("ab", "MergedWithNext", "true") "," LEVEL), "", "abbab", "1 2 2 1 2"},
        /* Tokens that are not normalised are found before those that are. */
        {PRE(NEVER) ADDED(TOKEN(5, "ab", true) "," TOKEN(6, "ba", false)), "", "abab", "1 6 2"},
        {PRE(NEVER) ADDED(TOKEN(5, "ab", true) "," TOKEN(6, "ba", false)), "", "aabbaab",
         "1 5 6 5"},
        /* In the vocabulary, behind it, and neither. */
        {PRE(NEVER) ADDED(TOKEN(4, "bb", false) "," TOKEN(5, "<x>", false)), "", "abb<x>", "1 4 5"},
        /* Hugging Face ignores the ids of the file. */
        {PRE(NEVER) ADDED(TOKEN(6, "<x>", false)), "", "a<x>", "1 5"},
        {PRE(NEVER) ADDED(TOKEN(2, "<x>", false)), "", "a<x>", "1 5"},
        {PRE(NEVER) ADDED(TOKEN(6, "<y>", false) "," TOKEN(5, "<x>", false)), "", "<x><y>", "6 5"},
        {PRE(NEVER) ADDED(TOKEN(5, "bb", false)), "", "abb", "1 4"},
        {PRE(NEVER) ADDED("{\"id\":5,\"content\":\"<x>\",\"lstrip\":true}"), "",
         "a \xE3\x80\x80<x> b", "1 5 3 2"},
        {PRE(NEVER) ADDED("{\"id\":5,\"content\":\"<x>\",\"rstrip\":true}"), "", "a <x> \nb",
         "1 3 5 2"},
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
        {TOKEN(257, "e\u0301", true), "e\u0301\u00E9x", "257 257 120"},
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
}

/* The special tokens that a post-processor puts around a text, when they are wanted. */
static void test_post_processor(void)
{
#define SPECIAL(name)  "{\"SpecialToken\":{\"id\":\"" name "\",\"type_id\":0}}"
#define PLAIN          "; drop --tokenizer-hf-include-special-tokens"
#define TEXT           "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
#define TEMPLATE(list) "{\"type\":\"TemplateProcessing\",\"single\":[" list "]," NAMED "}"
#define NAMED                                                                              \
    "\"special_tokens\":{\"x\":{\"id\":\"x\",\"ids\":[3,4],\"tokens\":[]},\"y\":{\"id\":"  \
    "\"y\",\"ids\":[9],\"tokens\":[]},\"gap\":{\"id\":\"gap\",\"ids\":[5],\"tokens\":[]}," \
    "\"word\":{\"id\":\"word\",\"ids\":[\"x\"],\"tokens\":[]}}"
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
         "tokenizer.json: post_processor TemplateProcessing after another one that adds tokens is "
         "not supported" PLAIN},
        {TEMPLATE(SPECIAL("y") "," TEXT),
         "tokenizer.json: post_processor: special token id 9 is not in the vocabulary; get "
         "tokenizer.json again from its source"},
        {TEMPLATE(SPECIAL("gap") "," TEXT),
         "tokenizer.json: post_processor: special token id 5 is not in the vocabulary; get "
         "tokenizer.json again from its source"},
        {TEMPLATE(SPECIAL("word") "," TEXT),
         "tokenizer.json: post_processor: the id of a special token is not an integer; get "
         "tokenizer.json again from its source"},
        {TEMPLATE(SPECIAL("z") "," TEXT),
         "tokenizer.json: post_processor: special_tokens has no ids for a token of the template"},
        {TEMPLATE(SPECIAL("x")), "tokenizer.json: post_processor TemplateProcessing with this "
                                 "template is not supported" PLAIN},
        {"{\"type\":\"Other\"}", "tokenizer.json: post_processor Other is not supported" PLAIN},
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
       "only HuggingFaceTokenizer can add all special tokens of its model; use --tokenizer-add-bos "
       "instead of --tokenizer-hf-include-special-tokens",
       "it is for tokenizer.json only");
}

int main(void)
{
    if (!mkdtemp(directory))
        return skip_all("no directory for files");
    test_refusals();
    test_combinations();
    test_whole_words();
    test_composed();
    test_post_processor();
    remove_files();
    return done_testing();
}
