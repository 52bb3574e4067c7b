/* SPDX-License-Identifier: Apache-2.0 */
/* Suggestions for misspelled names. */
#include "lib/nearest.h"
#include "tap.h"

static const struct {
    const char *a, *b;
    size_t distance;
} distances[] = {
    {"", "", 0},
    {"a", "", 1},
    {"abc", "abc", 0},
    {"ABC", "abc", 0},
    {"abc", "abd", 1},
    {"abc", "acb", 1},
    {"kitten", "sitting", 3},
    {"train", "tarin", 1},
    {"llama3-8b", "llama3-8", 1},
    {"gpt", "llama", 5},
};

static void test_nearest(void)
{
    static const char *const names[] = {"llama2-7b", "llama2-13b", "llama2-70b", "llama3-8b",
                                        "gpt2-345m"};
    char text[64];

    for (size_t i = 0; i < sizeof(distances) / sizeof(distances[0]); i++) {
        is_int((long long)nearest_distance(distances[i].a, distances[i].b),
               (long long)distances[i].distance, "a distance");
        is_int((long long)nearest_distance(distances[i].b, distances[i].a),
               (long long)distances[i].distance, "the other way round");
    }
    is_int((long long)nearest_names("llama3-8", names, 5, text, sizeof(text)), 2, "two are near");
    is(text, "llama3-8b or llama2-7b", "the nearest first");
    is_int((long long)nearest_names("bert", names, 5, text, sizeof(text)), 0, "none is near");
    is(text, "", "and none is named");
    is_int((long long)nearest_names("gpt2", names, 5, text, sizeof(text)), 1,
           "a beginning is near");
    is(text, "gpt2-345m", "and named");
    nearest_names("llama2-7b", names, 5, text, 8);
    is(text, "", "a name that does not fit is left out");
}

int main(void)
{
    test_nearest();
    return done_testing();
}
