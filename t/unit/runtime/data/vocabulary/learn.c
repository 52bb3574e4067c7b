/* SPDX-License-Identifier: Apache-2.0 */
/* Words of texts, and the merges and pieces of small lexicons, as worked out by hand. */
#include "data/vocabulary/bpe_learn.h"
#include "data/vocabulary/cutter.h"
#include "tap.h"
#include "data/vocabulary/unigram_learn.h"
#include "data/vocabulary/word_counts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
    const char *text;
    int64_t times;
};

static void fill(struct lexicon *lexicon, const struct word *words, size_t count)
{
    memset(lexicon, 0, sizeof(*lexicon));
    for (size_t i = 0; i < count; i++)
        lexicon_add(lexicon, words[i].text, strlen(words[i].text), words[i].times);
    lexicon_sort(lexicon);
}

/* Merges as "a b|ab c". */
static void show(const struct bpe_learned *learned, char *out, size_t size)
{
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < learned->merges.count && at < size; i++) {
        size_t left_size, right_size;
        const char *left = token_text(&learned->tokens, learned->merges.items[i].left, &left_size);
        const char *right =
            token_text(&learned->tokens, learned->merges.items[i].right, &right_size);

        at += (size_t)snprintf(out + at, size - at, "%s%.*s %.*s", i ? "|" : "", (int)left_size,
                               left, (int)right_size, right);
    }
}

static void test_merges(void)
{
    static const struct word first[] = {{"aab", 5}, {"ab", 3}, {"b", 100}};
    static const struct word runs[] = {{"aaaa", 2}, {"aaa", 1}};
    static const struct word ties[] = {{"xy", 4}, {"ab", 4}};
    static const struct word rare[] = {{"ab", 1}, {"cd", 2}};
    static const struct word again[] = {{"abc", 10}, {"ab", 5}, {"bc", 9}, {"abcd", 8}};
    static const struct {
        const struct word *words;
        size_t count;
        int64_t min_frequency, vocab_size;
        const char *prefix, *merges, *name;
    } rows[] = {
        {first, 3, 1, 100, NULL, "a b|a ab", "the most frequent pair first"},
        {runs, 2, 1, 100, NULL, "a a|aa aa|aa a", "a letter that repeats"},
        {ties, 2, 1, 100, NULL, "a b|x y", "equal counts: by ids"},
        {rare, 2, 2, 100, NULL, "c d", "a least frequency"},
        {first, 3, 1, 3, NULL, "a b", "up to the size of the vocabulary"},
        {first, 3, 1, 100, "##", "a ##a|aa ##b|a ##b", "parts inside a word have a prefix"},
        {again, 4, 1, 100, NULL, "b c|a bc|abc d|a b", "counts that fall while they wait"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bpe_rules rules = {.vocab_size = rows[i].vocab_size,
                                  .min_frequency = rows[i].min_frequency,
                                  .prefix = rows[i].prefix};
        struct bpe_learned learned;
        struct lexicon lexicon;
        struct error err;
        char text[256];

        fill(&lexicon, rows[i].words, rows[i].count);
        if (!ok(bpe_learn(&lexicon, &rules, &learned, &err) == 0, "%s", rows[i].name))
            diag("%s", err.text);
        show(&learned, text, sizeof(text));
        is(text, rows[i].merges, "  its merges");
        bpe_learned_clear(&learned);
        lexicon_clear(&lexicon);
    }
}

static void test_bytes(void)
{
    static const struct word words[] = {{"\xC3\xA9", 3}, {" a", 2}};
    static const char *const specials[] = {"<s>", "a"};
    struct bpe_rules rules = {.vocab_size = 1000,
                              .min_frequency = 1,
                              .byte_level = 1,
                              .specials = specials,
                              .special_count = 2};
    struct bpe_learned learned;
    struct lexicon lexicon;
    struct error err;
    char text[64];

    fill(&lexicon, words, 2);
    ok(bpe_learn(&lexicon, &rules, &learned, &err) == 0, "bytes");
    show(&learned, text, sizeof(text));
    is(text, "\xC3\x83 \xC2\xA9|\xC4\xA0 a", "  are written as GPT-2 writes them");
    is_int((long long)learned.tokens.count, 2 + 255 + 2,
           "  a special token that is also a byte counts once");
    is_int(tokens_find(&learned.tokens, "a", 1), 1, "  and keeps its id");
    bpe_learned_clear(&learned);
    rules.vocab_size = 200;
    ok(bpe_learn(&lexicon, &rules, &learned, &err) < 0 && err.code == ERROR_USAGE,
       "a vocabulary without room for them is refused");
    bpe_learned_clear(&learned);
    lexicon_clear(&lexicon);
}

static void test_pieces(void)
{
    static const struct word words[] = {
        {"_hello", 50}, {"_world", 40}, {"_hellish", 5}, {"_wor", 20}, {"_x\xE2\x82\xAC", 1}};
    struct unigram_rules rules = {.vocab_size = 20, .limit_alphabet = 11, .threads = 2};
    struct unigram_learned learned, alone;
    struct lexicon lexicon;
    struct error err;
    double sum = 0;
    int sorted = 1;

    fill(&lexicon, words, 5);
    if (!ok(unigram_learn(&lexicon, &rules, &learned, &err) == 0, "pieces"))
        diag("%s", err.text);
    ok(tokens_find(&learned.pieces, "_hello", 6) >= 0, "  a frequent word is one");
    ok(tokens_find(&learned.pieces, "h", 1) >= 0, "  so is each character");
    ok(tokens_find(&learned.pieces, "\xE2\x82\xAC", 3) < 0, "  but not a rare one");
    for (size_t i = 0; i < learned.pieces.count; i++) {
        sum += exp(learned.scores[i]);
        sorted = sorted && (i == 0 || learned.scores[i] <= learned.scores[i - 1]);
    }
    ok(sorted, "  the most probable first");
    ok(sum > 0.5 && sum < 1.01, "  probabilities add up to %.3f", sum);
    rules.threads = 1;
    ok(unigram_learn(&lexicon, &rules, &alone, &err) == 0 &&
           alone.pieces.count == learned.pieces.count &&
           memcmp(alone.scores, learned.scores, alone.pieces.count * sizeof(*alone.scores)) == 0,
       "  the same numbers with one thread");
    unigram_learned_clear(&alone);
    unigram_learned_clear(&learned);
    rules.vocab_size = 5;
    ok(unigram_learn(&lexicon, &rules, &learned, &err) < 0 && err.code == ERROR_USAGE,
       "fewer pieces than characters are refused");
    unigram_learned_clear(&learned);
    lexicon_clear(&lexicon);
}

static void test_counts(void)
{
    struct word_counts counts = {0};
    struct word_record record;
    int64_t sum = 0;
    size_t at = 0, seen = 0;
    char text[16];

    for (int i = 0; i < 30000; i++) {
        int size = snprintf(text, sizeof(text), "%d", i % 10000);

        word_counts_add(&counts, text, (size_t)size, 2);
    }
    while (word_record_next(counts.arena.data, counts.arena.size, &at, &record)) {
        sum += record.times;
        seen += record.times == 6;
    }
    is_int((long long)counts.count, 10000, "different words");
    is_int((long long)seen, 10000, "  each as often as it was added");
    is_int(sum, 60000, "  all of them");
    at = 0;
    ok(!word_record_next(counts.arena.data, 15, &at, &record), "half a record is none");
    word_counts_clear(&counts);
}

#define MARK   "\xE2\x96\x81"
#define ACUTE  "\xCC\x81"                             /* a combining accent */
#define TOKYO  "\xE6\x9D\xB1\xE4\xBA\xAC"             /* Han */
#define TOWER  "\xE3\x82\xBF\xE3\x83\xAF\xE3\x83\xBC" /* Katakana, prolonged sound mark */
#define DESU   "\xE3\x81\xA7\xE3\x81\x99"             /* Hiragana */
#define STOP   "\xE3\x80\x82"                         /* Chinese full stop */
#define MOSKVA "\xD0\x9C\xD0\xBE"                     /* Cyrillic */

/* What Unigram's pieces are parts of. */
static void test_cutter(void)
{
    static const struct {
        const char *text;
        int split;
        const char *words, *name;
    } rows[] = {
        {" Hello, world!\n", 1, MARK "Hello|,|" MARK "world|!",
         "punctuation is apart from letters"},
        {"(x86_64) 3.5kg", 1, MARK "(|x|86_64)|" MARK "3.5|kg",
         "so are digits, but not from punctuation"},
        {"me@example.org", 1, MARK "me|@|example|.|org", "an address"},
        {"cafe" ACUTE "s," ACUTE "x", 1, MARK "cafe" ACUTE "s|," ACUTE "|x",
         "a combining mark has the script of what precedes it"},
        {ACUTE "a", 1, MARK ACUTE "a", "  or of what follows if nothing does"},
        {"in" TOKYO TOWER DESU STOP, 1, MARK "in|" TOKYO TOWER DESU "|" STOP,
         "Han, Hiragana and Katakana are one script"},
        {"B" MOSKVA "B", 1, MARK "B|" MOSKVA "|B", "Latin and Cyrillic letters are apart"},
        {"a" MARK MARK "b", 1, MARK "a|" MARK "b", "SentencePiece's mark is a space"},
        {"\xFFz", 1, MARK "\xFF|z", "a byte that is not UTF-8"},
        {" ", 1, "", "no words"},
        {"Hello, x86 " MOSKVA "B", 0, MARK "Hello,|" MARK "x86|" MARK MOSKVA "B",
         "words are not split by script"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct learn_config config = {.type = LEARN_UNIGRAM, .split_scripts = rows[i].split};
        struct cutter cutter;
        struct word_counts counts = {0};
        struct word_record record;
        struct error err;
        char words[256] = "";
        size_t at = 0, length = 0;

        if (cutter_init(&cutter, &config, &err) < 0 ||
            cutter_count(&cutter, rows[i].text, strlen(rows[i].text), &counts, &err) < 0)
            abort();
        while (word_record_next(counts.arena.data, counts.arena.size, &at, &record))
            length += (size_t)snprintf(words + length, sizeof(words) - length, "%s%.*s",
                                       length ? "|" : "", (int)record.size, record.text);
        is(words, rows[i].words, rows[i].name);
        word_counts_clear(&counts);
        cutter_clear(&cutter);
    }
}

int main(void)
{
    test_cutter();
    test_merges();
    test_bytes();
    test_pieces();
    test_counts();
    return done_testing();
}
