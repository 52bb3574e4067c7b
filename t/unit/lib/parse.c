/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and sizes. */
#include "lib/parse.h"
#include "tap.h"

#include <stdlib.h>

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
}

int main(void)
{
    test_numbers();
    test_sizes();
    return done_testing();
}
