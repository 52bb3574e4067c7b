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

/* Scores as serde_json reads them: correctly rounded, "ab" would be as good as "a" and "b" in the
 * first rows, and be chosen. */
static void test_scores(void)
{
    static const struct {
        const char *a, *b, *ab, *ids;
    } rows[] = {
        {"-7.6839910250355965", "-6.887759912548186", "-14.571750937583783", "1 2"},
        {"-5.8475533254276995", "-5.854413869126703", "-11.701967194554403", "1 2"},
        {"-7.110196951812912", "-3.0405522059153736", "-10.150749157728285", "3"},
        {"-1e0", "-2E+0", "-3.0000000000000000000000001", "3"},
        {"-1", "-20e-1", "-3", "3"},
        {"-12345678901234567890123.25", "-1.5", "-12345678901234567890130.5", "3"},
        {"-0.00000000000000000000000000000000001", "-0.3", "-3e-1", "3"},
        {"-1e-320", "-2e-320", "-3e-320", "3"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tokenizer_config config = {.type = TOKENIZER_HUGGINGFACE, .model = directory};
        char text[4096];

        snprintf(text, sizeof(text),
                 "{ \"x\" : [ \"vocab]\", { \"vocab\" : [1] } , 2 ],\"model\" :{\"y\":\"\\\"\", "
                 "\"type\":"
                 "\"Unigram\",\"vocab\":[ [\"<unk>\",0.0], [\"a\" , %s ],[\"b\",%s],[\"ab\",\t%s]],"
                 "\"unk_id\":0},\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" MARK
                 "\",\"prepend_scheme\":\"never\",\"split\":false}}",
                 rows[i].a, rows[i].b, rows[i].ab);
        write_text("tokenizer.json", text);
        is(ids_of(config, "ab"), rows[i].ids, rows[i].ab);
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
        {"aqqbqqqa the qq", "7 0 5 0 4 11 3 0", "7 126 126 5 126 126 126 4 11 3 126 126"},
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

/* --- Sums over long texts -------------------------------------------------------------------- */

#define PIECES_MOST 64

struct lattice {
    const char *pieces[PIECES_MOST];
    float scores[PIECES_MOST];
    int types[PIECES_MOST];
    int count;
};

struct lattice_node {
    float score;
    int id, begin;
};

/* sentencepiece 0.2.2's search, over the whole text at once: sums in float, which are subtracted
 * from all others where they are further from 0 than 100000. Returns the number of ids. */
static size_t whole_search(const struct lattice *lattice, const char *text, int length,
                           int32_t *ids)
{
    struct lattice_node *nodes = calloc((size_t)length + 1, sizeof(*nodes));
    int furthest = 0;
    size_t count = 0;

    for (int i = 0; nodes && i <= length; i++)
        nodes[i].begin = -1;
    for (int at = 0; nodes && at < length; at++) {
        float before = nodes[at].score;
        int single = 0;

        if (before < -100000.0F || before > 100000.0F) {
            for (int i = at; i <= furthest; i++)
                if (i == at || nodes[i].begin >= 0)
                    nodes[i].score -= before;
            before = 0;
        }
        for (int id = 0; id <= lattice->count; id++) {
            const char *piece = id < lattice->count ? lattice->pieces[id] : "?";
            int size = (int)strlen(piece), unknown = id == lattice->count;
            float sum = before + (unknown ? -30.0F : lattice->scores[id]);

            if (unknown ? single
                        : at + size > length || memcmp(text + at, piece, (size_t)size) != 0)
                continue;
            single |= size == 1;
            furthest = at + size > furthest ? at + size : furthest;
            if (nodes[at + size].begin < 0 || sum > nodes[at + size].score)
                nodes[at + size] = (struct lattice_node){sum, unknown ? -1 : id, at};
        }
    }
    for (int at = length; nodes && at > 0; at = nodes[at].begin)
        count++;
    for (int at = length, i = (int)count; nodes && at > 0; at = nodes[at].begin)
        ids[--i] = nodes[at].id + 1;
    free(nodes);
    return count;
}

/* Scores of which many sums are nearly or exactly equal. */
static const struct sums {
    const char *name;
    int steps;      /* of a score, in 1 / 2^20 */
    int longest;    /* letters of a word */
    int user, gaps; /* user-defined pieces; a letter that is no piece, nor are two of it */
} sums[] = {
    {"scores that differ little", 700, 12, 0, 0},
    {"scores of few bits, whose sums are often equal", 1 << 17, 12, 0, 0},
    {"words of any length", 700, 80, 0, 0},
    {"user-defined pieces, whose scores are positive", 700, 14, 1, 0},
    {"unknown characters", 3000, 14, 0, 1},
};

static void make_lattice(const struct sums *row, struct lattice *lattice, unsigned *random)
{
    static const char *const texts[] = {" ",   "a",   "b",    "c",    " a",  " b",  "ab",  "ba",
                                        "aa",  "bb",  "abc",  "bca",  "cab", "aab", "abb", "bab",
                                        "aba", " ab", " aba", "abab", "cc",  "ac",  "bc",  "ca"};

    lattice->count = 0;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (row->gaps && strspn(texts[i], "c") == strlen(texts[i]))
            continue;
        *random = *random * 1103515245U + 12345U;
        lattice->pieces[lattice->count] = texts[i];
        lattice->types[lattice->count] = row->user && strcmp(texts[i], "cc") == 0 ? 4 : 1;
        lattice->scores[lattice->count] =
            -6.0F * (float)strlen(texts[i]) -
            (float)((int)(*random >> 16) % 64 * row->steps) / 1048576.0F;
        if (lattice->types[lattice->count] == 4)
            lattice->scores[lattice->count] = (float)(2 * 0.1F - 0.1);
        lattice->count++;
    }
    /* The score of an unknown character is 10 below the lowest one. */
    lattice->pieces[lattice->count] = "zzzz";
    lattice->types[lattice->count] = 1;
    lattice->scores[lattice->count++] = -20;
    for (int i = 0; i < lattice->count; i++)
        if (lattice->scores[i] < -20)
            lattice->scores[i] = -20;
}

static const char *write_lattice(const struct lattice *lattice)
{
    static char model[8192];
    size_t length = put_piece(model, "<unk>", 0, 2);

    for (int i = 0; i < lattice->count; i++) {
        char piece[16];

        snprintf(piece, sizeof(piece), "%s%s", lattice->pieces[i][0] == ' ' ? MARK : "",
                 lattice->pieces[i] + (lattice->pieces[i][0] == ' '));
        length += put_piece(model + length, piece, lattice->scores[i], lattice->types[i]);
    }
    return write_file("model", model, length);
}

/* A text as it is after the normalizer: a space before each word. */
static int make_text(const struct sums *row, char *text, int size, unsigned *random)
{
    int length = 0;

    while (length < size - row->longest - 1) {
        int letters;

        *random = *random * 1103515245U + 12345U;
        letters = 1 + (int)(*random >> 16) % row->longest;
        text[length++] = ' ';
        for (int i = 0; i < letters; i++) {
            *random = *random * 1103515245U + 12345U;
            text[length++] = "aaabbbc"[(*random >> 16) % 7];
        }
    }
    return length;
}

/* Adjacent unknown characters are one id. */
static size_t join_unknown(int32_t *ids, size_t count)
{
    size_t made = 0;

    for (size_t i = 0; i < count; i++)
        if (i == 0 || ids[i] != 0 || ids[i - 1] != 0)
            ids[made++] = ids[i];
    return made;
}

static void test_sums(void)
{
    enum { SIZE = 120000 };
    static char text[SIZE];
    static int32_t wanted[SIZE];
    unsigned random = 7;

    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
        struct tokenizer_config config = {.type = TOKENIZER_SENTENCEPIECE};
        struct token_buffer out = {0};
        struct lattice lattice;
        struct tokenizer *tokenizer;
        struct encoder *encoder;
        size_t count, at = 0;
        int length = make_text(&sums[i], text, SIZE, &random);

        make_lattice(&sums[i], &lattice, &random);
        config.model = write_lattice(&lattice);
        tokenizer = tokenizer_create(&config, &err);
        encoder = tokenizer ? encoder_create(tokenizer, 0, &err) : NULL;
        if (!encoder) {
            ok(0, "%s: %s", sums[i].name, err.text);
            tokenizer_destroy(tokenizer);
            continue;
        }
        count = join_unknown(wanted, whole_search(&lattice, text, length, wanted));
        /* Twice: the second time from the cache. */
        for (int pass = 0; pass < 2; pass++) {
            out.count = 0;
            ok(tokenizer_encode(encoder, text + 1, (size_t)length - 1, &out, &err) == 0 &&
                   out.count == count,
               "%s: number of ids", sums[i].name);
            for (at = 0; at < count && at < out.count; at++)
                if (((uint16_t *)out.ids)[at] != wanted[at])
                    break;
            ok(at == count, "%s: id %zu of %zu", sums[i].name, at, count);
        }
        token_buffer_clear(&out);
        encoder_destroy(encoder);
        tokenizer_destroy(tokenizer);
    }
}

int main(void)
{
    if (!mkdtemp(directory))
        return skip_all("no directory for files");
    test_json();
    test_scores();
    test_model();
    test_sums();
    remove_files();
    return done_testing();
}
