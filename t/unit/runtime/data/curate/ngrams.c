/* SPDX-License-Identifier: Apache-2.0 */
/* N-grams of test sets in documents. */
#include "config.h"
#include "data/curate/ngrams.h"
#include "tap.h"

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

int main(void)
{
    test_ngrams();
    return done_testing();
}
