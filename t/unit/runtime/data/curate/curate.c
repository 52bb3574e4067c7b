/* SPDX-License-Identifier: Apache-2.0 */
/* What `megatron data` judges, hashes and masks texts by, without files and ranks. */
#include "config.h"
#include "data/curate/fasttext_private.h"
#include "data/curate/hash.h"
#include "data/curate/minhash.h"
#include "data/curate/ngrams.h"
#include "data/curate/pii.h"
#include "base/core/rng.h"
#include "data/curate/rules.h"
#include "data/curate/shingle.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>

/* --- Words ------------------------------------------------------------------------------------ */

static void show_words(const char *text, enum words_mode mode, char *shown, size_t size)
{
    struct wordlist words = {0};
    size_t used = 0;

    shown[0] = '\0';
    wordlist_find(&words, text, strlen(text), mode);
    for (size_t i = 0; i < words.count; i++)
        used += (size_t)snprintf(shown + used, size - used, "%s%.*s/%u%s", i ? " " : "",
                                 (int)words.items[i].size, text + words.items[i].begin,
                                 words.items[i].chars,
                                 words.items[i].flags & WORD_SYMBOL  ? "s"
                                 : words.items[i].flags & WORD_ALPHA ? "a"
                                                                     : "");
    wordlist_clear(&words);
}

static void test_words(void)
{
    static const struct {
        const char *text;
        enum words_mode mode;
        const char *shown;
    } rows[] = {
        {"", WORDS_ALL, ""},
        {" \t\n", WORDS_ALL, ""},
        {"Hello, world!", WORDS_ALL, "Hello/5a ,/1s world/5a !/1s"},
        {"Hello, world!", WORDS_ONLY, "Hello/5a world/5a"},
        {"don't a@b.org 3.5 x-y a/b a..b", WORDS_ALL,
         "don't/5a a@b.org/7a 3.5/3 x/1a -/1s y/1a a/1a //1s b/1a a/1a ../2s b/1a"},
        {"don't a@b", WORDS_ONLY, "don/3a t/1a a/1a b/1a"},
        {"\xC3\xA9t\xC3\xA9's.", WORDS_ALL, "\xC3\xA9t\xC3\xA9's/5a ./1s"},
        {"a_b 12 x1", WORDS_ALL, "a_b/3a 12/2 x1/2a"},
        {"\xC3\xA9t\xC3\xA9 caf\xC3\xA9.", WORDS_ALL, "\xC3\xA9t\xC3\xA9/3a caf\xC3\xA9/4a ./1s"},
        {"cafe\xCC\x81s", WORDS_ALL, "cafe\xCC\x81s/6a"},
        {"cafe\xCC\x81s", WORDS_REGEX, "cafe/4a s/1a"},
        {"\xE6\xBC\xA2\xE5\xAD\x97x", WORDS_ALL, "\xE6\xBC\xA2/1a \xE5\xAD\x97/1a x/1a"},
        {"\xE6\xBC\xA2\xE5\xAD\x97x", WORDS_REGEX, "\xE6\xBC\xA2\xE5\xAD\x97x/3a"},
        {"x\xC2\xA0y \xE2\x80\xA6...", WORDS_ALL, "x/1a y/1a \xE2\x80\xA6.../4s"},
        {"..\xC3\xA9", WORDS_ALL, "../2s \xC3\xA9/1a"},
    };
    char shown[512], folded[64];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        show_words(rows[i].text, rows[i].mode, shown, sizeof(shown));
        is(shown, rows[i].shown, rows[i].text);
    }
    wordlist_fold("\xC3\x89T\xC3\x89 \xCE\x91\xCE\xA9 \xD0\x96\xD0\x81 \xC4\xB0 \xC5\xB8", 21,
                  folded);
    folded[21] = '\0';
    is(folded, "\xC3\xA9t\xC3\xA9 \xCE\xB1\xCF\x89 \xD0\xB6\xD1\x91 \xC4\xB0 \xC3\xBF",
       "capital letters of several scripts become small ones");
}

/* --- Rules ------------------------------------------------------------------------------------ */

/* 'times' copies of 'text'. */
static char *repeat(const char *text, int times)
{
    size_t size = strlen(text);
    char *all = malloc(size * (size_t)times + 1);

    for (int i = 0; i < times; i++)
        memcpy(all + (size_t)i * size, text, size + 1);
    return all;
}

/* 'count' words that are all different, in lines of ten that end with a full stop. */
static char *prose(int count)
{
    char *text = malloc((size_t)count * 24 + 64);
    size_t used = 0;

    for (int i = 0; i < count; i++)
        used += (size_t)sprintf(text + used, "%s%c%c%c%c%c%s", i % 10 ? " " : "", 'a' + i % 26,
                                'a' + i / 26 % 26, 'a' + i / 676 % 26, 'a' + (i * 7) % 26,
                                'a' + (i * 11) % 26,
                                i % 10 == 9   ? ".\n"
                                : i % 10 == 4 ? " the"
                                : i % 10 == 6 ? " and"
                                              : "");
    return text;
}

static const char *judge(const char *group, const char *text)
{
    struct rules rules;
    struct rule_scratch scratch = {0};
    struct verdict verdict;

    rules_default(&rules);
    rules_switch(&rules, "all", 0, NULL);
    rules_switch(&rules, group, 1, NULL);
    rules_apply(&rules, &scratch, text, strlen(text), &verdict);
    rule_scratch_clear(&scratch);
    return verdict.rule < 0 ? "kept" : rule_table[verdict.rule].name;
}

static void test_rules(void)
{
    static const struct {
        const char *group, *text;
        int times;
        const char *verdict;
    } rows[] = {
        {"all", " ", 1, "empty"},
        {"gopher-quality", "the and words here. ", 12, "min-words"},
        {"gopher-quality", "the and words here. ", 20, "kept"},
        {"max-words", "a b ", 50001, "max-words"},
        {"max-words", "a b ", 50000, "kept"},
        {"min-word-length", "ab abc ", 30, "min-word-length"},
        {"max-word-length", "abcdefghijk abcdefghij ", 30, "max-word-length"},
        {"max-word-length", "abcdefghij abcdefghij ", 30, "kept"},
        {"hashes", "word word word # ", 30, "hashes"},
        {"ellipses", "word word word ... ", 30, "ellipses"},
        {"ellipses", "one two three four five six seven eight nine ten eleven twelve ... ", 9,
         "kept"},
        {"bullet-lines", " - word\n", 10, "bullet-lines"},
        {"ellipsis-lines", "word \xE2\x80\xA6\nword\n", 10, "ellipsis-lines"},
        {"alphabetic-words", "12 34 word ", 20, "alphabetic-words"},
        {"stop-words", "the nothing ", 40, "stop-words"},
        {"stop-words", "the of nothing ", 40, "kept"},
        {"repeated-paragraphs", "one paragraph\n\n", 3, "repeated-paragraphs"},
        {"repeated-lines", "one line\n", 3, "repeated-lines"},
        {"repeated-line-characters", "a long line that is there again\n", 2,
         "repeated-line-characters"},
        {"top-2-gram", "as well ", 10, "top-2-gram"},
        {"repeated-5-grams", "one two three four five six seven ", 4, "repeated-5-grams"},
        {"repeated-10-grams", "one two three four five six seven eight nine ten eleven ", 3,
         "repeated-10-grams"},
        {"c4-curly-bracket", "int main() { return 0; }", 1, "c4-curly-bracket"},
        {"c4-lorem-ipsum", "Lorem Ipsum dolor.", 1, "c4-lorem-ipsum"},
        {"c4-sentences", "One. Two! Three? Four.", 1, "c4-sentences"},
        {"c4-sentences", "One. Two! Three? Four.\nFive.", 1, "kept"},
        {"fineweb-line-end", "no end\n", 10, "fineweb-line-end"},
        {"fineweb-short-lines", "short.\n", 10, "fineweb-short-lines"},
        {"fineweb-repeated-characters", "a line that is repeated.\n", 2,
         "fineweb-repeated-characters"},
        {"fineweb-newlines", "word\n", 10, "fineweb-newlines"},
    };
    char *text = prose(400);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *all = repeat(rows[i].text, rows[i].times);

        is(judge(rows[i].group, all), rows[i].verdict, rows[i].group);
        free(all);
    }
    is(judge("all", text), "kept", "400 different words in sentences break no rule");
    free(text);
}

/* Lines of six words, or of one: whatever character of Unicode's White_Space is between them. */
static void test_c4_spaces(void)
{
    static const char *const spaces[] = {" ",
                                         "\t",
                                         "\x1f",
                                         "\xC2\x85",
                                         "\xC2\xA0",
                                         "\xE1\x9A\x80",
                                         "\xE2\x80\x80",
                                         "\xE2\x80\x89",
                                         "\xE2\x80\x8A",
                                         "\xE2\x80\xAF",
                                         "\xE2\x81\x9F",
                                         "\xE3\x80\x80"};
    struct rules rules;

    rules_default(&rules);
    rules_switch(&rules, "all", 0, NULL);
    rules_switch(&rules, "c4", 1, NULL);
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        const char *s = spaces[i];
        struct rule_scratch scratch = {0};
        struct verdict verdict;
        char text[256], wanted[256];

        snprintf(text, sizeof(text), "%sOne%stwo%sthree.%sFour!%sFive?%sSix. Seven.%s", s, s, s, s,
                 s, s, s);
        snprintf(wanted, sizeof(wanted), "One%stwo%sthree.%sFour!%sFive?%sSix. Seven.", s, s, s, s,
                 s);
        rules_apply(&rules, &scratch, text, strlen(text), &verdict);
        if (!ok(verdict.rule == -1 && verdict.size == strlen(wanted) &&
                    memcmp(verdict.text, wanted, verdict.size) == 0,
                "C4's rules: white space number %zu", i))
            diag("rule %d", verdict.rule);
        rule_scratch_clear(&scratch);
    }
}

/* C4's rules on lines edit the text. */
static void test_c4_lines(void)
{
    static const char text[] =
        "A first line that stays.\nToo short.\n  Please enable JavaScript now."
        "\nWe use cookies on this site.\nWithout an end of its own\n"
        "Said in a book [12] once[citation needed], \"and kept\"";
    struct rules rules;
    struct rule_scratch scratch = {0};
    struct verdict verdict;

    rules_default(&rules);
    rules_switch(&rules, "all", 0, NULL);
    rules_switch(&rules, "c4", 1, NULL);
    rules_set(&rules, "c4-sentences=2", NULL);
    rules_apply(&rules, &scratch, text, strlen(text), &verdict);
    ok(verdict.rule == -1 && verdict.edited, "C4 edits a text");
    if (!ok(verdict.size == 57 &&
                memcmp(verdict.text, "A first line that stays.\nSaid in a book  once, \"and kept\"",
                       57) == 0,
            "  and keeps the lines that are sentences"))
        diag("%zu %.*s", verdict.size, (int)verdict.size, verdict.text);
    ok(scratch.lines_removed[RULE_C4_LINE_WORDS] == 1 &&
           scratch.lines_removed[RULE_C4_JAVASCRIPT] == 1 &&
           scratch.lines_removed[RULE_C4_POLICY] == 1 &&
           scratch.lines_removed[RULE_C4_LINE_END] == 1 && scratch.citations == 2,
       "  and counts the others by rule");
    rule_scratch_clear(&scratch);
}

static void test_rule_words(void)
{
    static const char *const bad[] = {"min-words", "min-words=", "nothing=3", "c4-javascript=1",
                                      "min-words=x"};
    struct rules rules;
    struct error err = {.text = ""};

    rules_default(&rules);
    ok(rules.on[RULE_MIN_WORDS] && !rules.on[RULE_C4_LINE_END], "FineWeb's recipe is the default");
    ok(rules_switch(&rules, "fine", 1, &err) < 0 && strstr(err.text, "no rule fine") &&
           err.code == ERROR_USAGE,
       "an unknown rule is refused");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ok(rules_set(&rules, bad[i], &err) < 0 && err.code == ERROR_USAGE, "--set %s: %s", bad[i],
           err.text);
    ok(rules_set(&rules, "min-words=7", &err) == 0 && rules.value[RULE_MIN_WORDS] == 7,
       "--set min-words=7");
}

/* --- Personal data ---------------------------------------------------------------------------- */

static void test_pii(void)
{
    static const struct {
        const char *text, *masked;
    } rows[] = {
        {"nothing here", NULL},
        {"write to jane.doe+x@mail.example.co.uk.", "write to E."},
        {"<a@b.org>,c@d.net", "<E>,E"},
        {"a@b", NULL},
        {"@user @b.org", NULL},
        {"a..b@c.org", "a..E"},
        {".a@c.org", ".E"},
        {"x@-c.org", NULL},
        {"x@c-.org", NULL},
        {"x@c.org-", "E-"},
        {"8.8.8.8", "I"},
        {"at 8.8.8.8, or 8.8.4.4.", "at I, or I."},
        {"10.1.2.3 127.0.0.1 192.168.1.1 172.16.0.1 169.254.0.1 0.0.0.0 224.0.0.1 255.255.255.255",
         NULL},
        {"172.32.0.1", "I"},
        {"1.2.3.4.5", NULL},
        {"version 1.2.3", NULL},
        {"256.1.1.1", NULL},
        {"08.8.8.8", NULL},
        {"1.2.3.4567", NULL},
        {"user@8.8.8.8", "E"},
        {"\xC3\xA9t\xC3\xA9@c.org", NULL},
    };
    struct pii pii = {"E", "I"}, none = {NULL, NULL};
    struct pii_counts counts = {0, 0};
    struct line_buffer out = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t found = pii_mask(&pii, rows[i].text, strlen(rows[i].text), &out, &counts);

        line_put(&out, "", 1);
        is(found ? out.data : "as it was", rows[i].masked ? rows[i].masked : "as it was",
           rows[i].text);
    }
    is_int(pii_mask(&none, "a@b.org 8.8.8.8", 15, &out, &counts), 0, "only what is asked for");
    line_buffer_clear(&out);
}

/* --- MinHash ---------------------------------------------------------------------------------- */

/* Two sets with 'common' of their 'common + 2 * own' shingles in both. */
static void make_sets(uint32_t *a, uint32_t *b, size_t common, size_t own, uint64_t seed)
{
    for (size_t i = 0; i < common + own; i++) {
        a[i] = (uint32_t)hash_mix(rng_bits(seed, RNG_TEST, 0, i));
        b[i] = i < common ? a[i] : (uint32_t)hash_mix(rng_bits(seed, RNG_TEST, 1, i));
    }
}

static int share_a_band(const struct minhash *minhash, const uint32_t *a, const uint32_t *b,
                        size_t count, uint32_t *minima)
{
    minhash_minima(minhash, a, count, minima);
    minhash_minima(minhash, b, count, minima + minhash->count);
    for (size_t band = 0; band < minhash->bands; band++)
        if (minhash_band(minhash, minima, band) ==
            minhash_band(minhash, minima + minhash->count, band))
            return 1;
    return 0;
}

/* Pairs of known similarity are found as often as the theory says, within four deviations. */
static void test_curve(const char *name, size_t bands, size_t rows, int pairs)
{
    enum { UNION = 240 };
    struct minhash minhash;
    struct error err;
    uint32_t a[UNION], b[UNION], *minima;

    minhash_init(&minhash, bands, rows, 1, NULL, &err);
    minima = malloc(2 * minhash.count * sizeof(*minima));
    for (int s = 3; s <= 9; s++) {
        size_t common = (size_t)(UNION * s / 10), own = (UNION - common) / 2;
        double similarity = (double)common / (double)(common + 2 * own);
        double expected = 1 - pow(1 - pow(similarity, (double)rows), (double)bands);
        double deviation = sqrt(expected * (1 - expected) * pairs) + 1;
        int found = 0;

        for (int i = 0; i < pairs; i++) {
            make_sets(a, b, common, own, (uint64_t)(i * 100 + s));
            found += share_a_band(&minhash, a, b, common + own, minima);
        }
        ok(fabs(found - expected * pairs) <= 4 * deviation,
           "%s: %d of %d pairs with similarity %.2f found, %.1f expected", name, found, pairs,
           similarity, expected * pairs);
    }
    free(minima);
    minhash_clear(&minhash);
}

/* All ways to compute them give the same minima. */
static void test_engines(void)
{
    static const char *const engines[] = {"plain", "avx2", "avx512"};
    struct minhash plain, other;
    struct error err;
    uint32_t shingles[5000], *expected, *got;

    for (size_t i = 0; i < 5000; i++)
        shingles[i] = (uint32_t)hash_mix(i + 1);
    minhash_init(&plain, 20, 13, 7, "plain", &err);
    expected = malloc(plain.count * sizeof(*expected));
    got = malloc(plain.count * sizeof(*got));
    for (size_t k = 0; k < 3; k++)
        for (size_t count = 0; count <= 5000; count = count * 7 + 1) {
            if (minhash_init(&other, 20, 13, 7, engines[k], &err) < 0)
                break;
            minhash_minima(&plain, shingles, count, expected);
            minhash_minima(&other, shingles, count, got);
            ok(memcmp(expected, got, plain.count * sizeof(*got)) == 0, "%s on %zu shingles",
               engines[k], count);
            minhash_clear(&other);
        }
    ok(expected[3] != expected[4] && expected[0] != UINT32_MAX, "minima differ from each other");
    ok(minhash_init(&other, 1, 1, 7, "mmx", &err) < 0 && strstr(err.text, "mmx"), "%s", err.text);
    minhash_clear(&plain);
    minhash_clear(&other);
    free(expected);
    free(got);
}

static double similarity_of(const char *a, const char *b, enum shingle_unit unit, size_t n)
{
    struct shingles left = {0}, right = {0};
    double similarity;

    shingles_make(&left, unit, n, a, strlen(a));
    shingles_make(&right, unit, n, b, strlen(b));
    shingles_unique(&left);
    shingles_unique(&right);
    similarity = shingles_similarity(left.items, left.count, right.items, right.count);
    shingles_clear(&left);
    shingles_clear(&right);
    return similarity;
}

static void test_shingles(void)
{
    static const struct {
        const char *a, *b;
        enum shingle_unit unit;
        size_t n;
        double similarity;
    } rows[] = {
        {"One two three four five six", "one, TWO (three) four; five six!", SHINGLE_WORDS, 5, 1},
        {"in 1999 there were 3 of them", "in 2024 there were 17 of them", SHINGLE_WORDS, 5, 1},
        {"a b c d e f", "b c d e f g", SHINGLE_WORDS, 5, 1. / 3},
        {"a b c", "a b c", SHINGLE_WORDS, 5, 1},
        {"a b c", "a b d", SHINGLE_WORDS, 5, 0},
        {"", "", SHINGLE_WORDS, 5, 1},
        {"abcd", "bcde", SHINGLE_CHARACTERS, 3, 1. / 3},
        {"\xC3\xA9t\xC3\xA9s", "\xC3\xA9t\xC3\xA9z", SHINGLE_CHARACTERS, 3, 1. / 3},
        {"ab", "ab", SHINGLE_CHARACTERS, 24, 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double got = similarity_of(rows[i].a, rows[i].b, rows[i].unit, rows[i].n);

        ok(fabs(got - rows[i].similarity) < 1e-9, "similarity of \"%s\" and \"%s\": %.3f",
           rows[i].a, rows[i].b, got);
    }
}

/* --- N-grams of tests ------------------------------------------------------------------------- */

static void test_ngrams(void)
{
    static const struct {
        const char *text;
        int found;
        size_t begin, chars;
    } rows[] = {
        {"nothing of it is in here at all my friend", 0, 0, 0},
        {"well, The Quick brown  FOX jumps over it", 1, 6, 25},
        {"the quick brown fox", 0, 0, 0},
        {"x y z w v the short test", 1, 10, 14},
        {"the short test", 0, 0, 0}, /* as in Megatron: shorter than the longest n-gram */
    };
    struct ngrams ngrams;
    struct ngram_scratch scratch = {0};
    struct ngram_match match;

    ngrams_init(&ngrams, 5, 3, WORDS_REGEX);
    ngrams_add(&ngrams, &scratch, "The quick brown fox jumps.", 26);
    ngrams_add(&ngrams, &scratch, "The short test", 14);
    ngrams_add(&ngrams, &scratch, "of two", 6);
    is_int((long long)ngrams.count, 2, "a test of too few words has no n-gram");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int found = ngrams_find(&ngrams, &scratch, rows[i].text, strlen(rows[i].text), &match);

        if (!ok(found == rows[i].found &&
                    (!found || (match.begin == rows[i].begin && match.chars == rows[i].chars)),
                "%s", rows[i].text))
            diag("%d %zu %zu", found, match.begin, match.chars);
    }
    ngram_scratch_clear(&scratch);
    ngrams_clear(&ngrams);
}

/* --- fastText --------------------------------------------------------------------------------- */

/* Lines of fastText's own answers: model, label, probability, text. */
static void test_languages(const char *directory)
{
    char path[4096], line[1024], model_name[64] = "";
    struct fasttext *model = NULL;
    struct fasttext_scratch *scratch = NULL;
    struct error err = {.text = ""};
    FILE *file;

    snprintf(path, sizeof(path), "%s/data/languages.txt", directory);
    file = fopen(path, "r");
    ok(file != NULL, "%s", path);
    while (file && fgets(line, sizeof(line), file)) {
        char *name = strtok(line, "\t"), *label = strtok(NULL, "\t"), *score = strtok(NULL, "\t");
        char *text = strtok(NULL, "\n");
        double probability = -1;
        const char *got;

        if (strcmp(name, model_name) != 0) {
            fasttext_scratch_destroy(scratch);
            fasttext_close(model);
            snprintf(model_name, sizeof(model_name), "%s", name);
            snprintf(path, sizeof(path), "%s/data/%s", directory, name);
            model = fasttext_open(path, &err);
            ok(model != NULL, "%s %s", path, err.text);
            if (!model)
                break;
            scratch = fasttext_scratch_create(model);
        }
        got = fasttext_predict(model, scratch, text, strlen(text), &probability);
        if (!ok(got && strcmp(got, label) == 0 && fabs(probability - atof(score)) < 0.00015,
                "%s: %s %.4f for \"%s\"", name, got ? got : "nothing", probability, text))
            diag("fastText has %s %s", label, score);
    }
    fasttext_scratch_destroy(scratch);
    fasttext_close(model);
    if (file)
        fclose(file);
}

/* Of as many words as a model may have. */
static void test_table_sizes(void)
{
    static const struct {
        int64_t entries;
        size_t size;
    } rows[] = {{0, 16},
                {8, 16},
                {9, 32},
                {INT64_C(1) << 30, (size_t)1 << 31},
                {(INT64_C(1) << 30) + 1, (size_t)1 << 32},
                {INT32_MAX, (size_t)1 << 32}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ok(fasttext_table_size(rows[i].entries) == rows[i].size, "a table for %lld entries",
           (long long)rows[i].entries);
}

int main(void)
{
    test_words();
    test_rules();
    test_c4_spaces();
    test_c4_lines();
    test_rule_words();
    test_pii();
    test_engines();
    test_curve("FineWeb", 14, 8, 400);
    test_curve("NeMo", 20, 13, 400);
    test_curve("RefinedWeb", 450, 20, 40);
    test_shingles();
    test_ngrams();
    test_table_sizes();
    test_languages(TOP_SRCDIR "/t");
    return done_testing();
}
