/* SPDX-License-Identifier: Apache-2.0 */
/* The basics: errors, numbers, suggestions for misspelled names. */
#include "error.h"
#include "nearest.h"
#include "parse.h"
#include "tap.h"

#include <errno.h>
#include <stdlib.h>

static void test_errors(void)
{
    struct error err;
    char long_text[2000];

    is_int(error_set(&err, "%s=%d", "a", 1), -1, "error_set returns -1");
    is(err.text, "a=1", "and formats");
    is_int(error_set(NULL, "nobody listens"), -1, "nobody need listen");
    is_int(error_set_errno(&err, ENOENT, "%s cannot be read", "f"), -1, "with errno");
    is(err.text, "f cannot be read: No such file or directory; check the path",
       "the reason and what to do follow");
    is_int(error_prefix(&err, "line %d", 3), -1, "error_prefix returns -1");
    is(err.text, "line 3: f cannot be read: No such file or directory; check the path",
       "the prefix is before");
    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    error_set(&err, "%s", long_text);
    is_int((long long)strlen(err.text), (long long)sizeof(err.text) - 1, "long text is cut");
    is(err.text + strlen(err.text) - 4, "x...", "and shows it");
    error_prefix(&err, "before");
    ok(strncmp(err.text, "before: xxx", 11) == 0, "a prefix before cut text");
    error_append(&err, "; %s", "do this");
    is_int((long long)strlen(err.text), (long long)sizeof(err.text) - 1, "it is cut for a remedy");
    is(err.text + strlen(err.text) - 11, "xx; do this", "  which is complete");
}

/* General remedies, which give way to specific ones. */
static void test_remedies(void)
{
    struct error err;
    char long_text[1020];

    error_set_errno(&err, ENOSPC, "cannot write f");
    error_append(&err, "; use %s", "g");
    is(err.text, "cannot write f: No space left on device; use g", "a specific remedy is better");
    error_append(&err, "; or h");
    is(err.text, "cannot write f: No space left on device; use g; or h", "and is kept");
    error_set_code_errno(&err, ERROR_USAGE, EISDIR, "cannot read %s", "f");
    error_append(&err, " (%d bytes)", 5);
    error_prefix(&err, "--input");
    is(err.text, "--input: cannot read f: Is a directory (5 bytes); name a file instead",
       "what is not a remedy goes before it");
    is_int(err.code, ERROR_USAGE, "the code is kept");
    error_append(&err, "; use f/g");
    is(err.text, "--input: cannot read f: Is a directory (5 bytes); use f/g",
       "after a prefix it can be replaced as well");
    error_set_errno(&err, EDOM, "f");
    ok(!strchr(err.text, ';'), "no remedy for an errno value that has none");
    error_set(&err, "%s: out of memory", "f");
    is(err.text,
       "f: out of memory; raise the memory limit of the job (sbatch --mem), or run fewer tasks per "
       "node",
       "a failed allocation has one");
    error_append(&err, "; use more buckets");
    is(err.text, "f: out of memory; use more buckets", "  which can be replaced");
    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    error_set_errno(&err, ENOENT, "%s", long_text);
    error_append(&err, "; y");
    is(err.text + strlen(err.text) - 5, "x:; y", "a text without room for the general one");
    error_set(&err, "line 3 of f is damaged");
    error_advise(&err, "copy it again");
    is(err.text, "line 3 of f is damaged; copy it again", "a reader of files adds a remedy");
    error_advise(&err, "download it");
    is(err.text, "line 3 of f is damaged; copy it again", "  if there is none");
    error_append(&err, "; use g");
    is(err.text, "line 3 of f is damaged; use g", "  and a specific one replaces it");
    err.text[0] = '\0';
    error_append(&err, "; z");
    is(err.text, "; z", "a text that was emptied");
}

static const struct {
    const char *text;
    int64_t min, max;
    int rc;
    int64_t value;
} numbers[] = {
    {"0", 0, 10, 0, 0},
    {"-5", -10, 10, 0, -5},
    {"+7", 0, 10, 0, 7},
    {"10", 0, 10, 0, 10},
    {"11", 0, 10, -1, 0},
    {"-1", 0, 10, -1, 0},
    {"", 0, 10, -1, 0},
    {" 1", 0, 10, -1, 0},
    {"1 ", 0, 10, -1, 0},
    {"1k", 0, 10, -1, 0},
    {"0x10", 0, 100, -1, 0},
    {"1.0", 0, 10, -1, 0},
    {"9223372036854775807", 0, INT64_MAX, 0, INT64_MAX},
    {"9223372036854775808", 0, INT64_MAX, -1, 0},
    {"-9223372036854775808", INT64_MIN, 0, 0, INT64_MIN},
};

static const struct {
    const char *text;
    int rc;
    double value;
} reals[] = {
    {"1", 0, 1},    {"1e-4", 0, 1e-4}, {".5", 0, .5},  {"-2.5", 0, -2.5},
    {"", -1, 0},    {"nan", -1, 0},    {"inf", -1, 0}, {"1e999", -1, 0},
    {"1,5", -1, 0}, {" 1", -1, 0},     {"1 ", -1, 0},  {"x", -1, 0},
};

static const struct {
    const char *text;
    int kilo, rc;
    int64_t value;
} sizes[] = {
    {"8", 1024, 0, 8},
    {"64k", 1024, 0, 65536},
    {"64K", 1024, 0, 65536},
    {"128M", 1024, 0, 134217728},
    {"1g", 1024, 0, 1073741824},
    {"1G", 1000, 0, 1000000000},
    {"1.5k", 1024, 0, 1536},
    {"2T", 1000, 0, 2000000000000},
    {"5GB", 1024, 0, 5000000000},
    {"5B", 1024, 0, 5},
    {"1GiB", 1000, 0, 1073741824},
    {"9223372036854775807", 1024, 0, INT64_MAX},
    {"9223372036854775808", 1024, -1, 0},
    {"9P", 1024, 0, 10133099161583616},
    {"99999P", 1024, -1, 0},
    {"3", 1024, -1, 0}, /* below the minimum */
    {"", 1024, -1, 0},
    {"G", 1024, -1, 0},
    {".", 1024, -1, 0},
    {"-8", 1024, -1, 0},
    {" 8", 1024, -1, 0},
    {"8 M", 1024, -1, 0},
    {"1e3", 1024, -1, 0},
    {"0x10", 1024, -1, 0},
    {"1.5.5G", 1024, -1, 0},
    {"5iB", 1024, -1, 0},
    {"5MM", 1024, -1, 0},
};

static void test_sizes(void)
{
    struct error err;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int64_t value = 0;

        err.text[0] = '\0';
        ok(parse_size("--s", sizes[i].text, sizes[i].kilo, 4, INT64_MAX, &value, &err) ==
                   sizes[i].rc &&
               value == sizes[i].value && (sizes[i].rc == 0) == (err.text[0] == '\0'),
           "the size \"%s\" %s", sizes[i].text, err.text);
    }
}

static void test_numbers(void)
{
    struct error err;
    size_t product = 7;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        int64_t value = 0;

        err.text[0] = '\0';
        ok(parse_int64("--n", numbers[i].text, numbers[i].min, numbers[i].max, &value, &err) ==
                   numbers[i].rc &&
               value == numbers[i].value && (numbers[i].rc == 0) == (err.text[0] == '\0'),
           "the number \"%s\" %s", numbers[i].text, err.text);
    }
    for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++) {
        double value = 0;

        err.text[0] = '\0';
        ok(parse_double("--x", reals[i].text, &value, &err) == reals[i].rc &&
               value == reals[i].value && (reals[i].rc == 0) == (err.text[0] == '\0'),
           "the number \"%s\" %s", reals[i].text, err.text);
    }
    ok(size_multiply(3, 5, &product) == 0 && product == 15, "a product");
    ok(size_multiply(SIZE_MAX, 2, &product) == -1 && product == 15, "a product that does not fit");
    ok(size_multiply(SIZE_MAX, 0, &product) == 0 && product == 0, "nothing times a lot");
}

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
    is(text, "llama2-", "cut at the end of the buffer");
}

int main(void)
{
    test_errors();
    test_remedies();
    test_numbers();
    test_sizes();
    test_nearest();
    return done_testing();
}
