/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a text: word breaks as in the libraries that other pipelines use, and lower case. */
#include "config.h"
#include "data/curate/wordlist.h"
#include "tap.h"

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

int main(void)
{
    test_words();
    return done_testing();
}
