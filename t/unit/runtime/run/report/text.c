/* SPDX-License-Identifier: Apache-2.0 */
/* Escaping, numbers, and the hash in the content security policy. */
#include "run/report/chart.h"
#include "run/report/sha256.h"
#include "tap.h"
#include "run/report/text.h"

#include <math.h>

#define UNKNOWN "\xef\xbf\xbd"

int main(void)
{
    static const struct {
        const char *in, *out;
    } escapes[] = {
        {"plain", "plain"},
        {"<script>alert('x')&\"", "&lt;script&gt;alert(&#39;x&#39;)&amp;&quot;"},
        {"caf\xc3\xa9 \xf0\x9f\x98\x80", "caf\xc3\xa9 \xf0\x9f\x98\x80"},
        {"\x1b[31mred", UNKNOWN "[31mred"},
        {"cut \xe2\x82", "cut " UNKNOWN UNKNOWN},
        {"\xc0\xaf", UNKNOWN UNKNOWN},
        {"\xed\xa0\x80", UNKNOWN UNKNOWN UNKNOWN},
        {"\xf4\x90\x80\x80", UNKNOWN UNKNOWN UNKNOWN UNKNOWN},
    };
    static const struct {
        double in;
        const char *out;
    } numbers[] = {{0, "0"},        {1234, "1234"},   {12345, "12.35k"}, {2.5e6, "2.5M"},
                   {3e-5, "3e-05"}, {-0.25, "-0.25"}, {4.2e12, "4.2T"},  {NAN, "\xe2\x80\x93"}},
      durations[] = {
          {0.035, "35 ms"}, {12.34, "12.3 s"}, {600, "10 min"}, {9000, "2.5 h"}, {864000, "10 d"}};
    struct text text = {0};
    char hash[45];

    for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
        text_escape(&text, escapes[i].in);
        is(text.data, escapes[i].out, "escaped text");
        text_clear(&text);
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        chart_number(&text, numbers[i].in);
        is(text.data, numbers[i].out, "a number");
        text_clear(&text);
    }
    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
        chart_duration(&text, durations[i].in);
        is(text.data, durations[i].out, "a duration");
        text_clear(&text);
    }
    text_number(&text, INFINITY, 5);
    is(text.data, "null", "JSON has no infinity");
    text_clear(&text);
    /* Values of sha256sum. */
    sha256_base64("", 0, hash);
    is(hash, "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "SHA-256 of nothing");
    sha256_base64("abc", 3, hash);
    is(hash, "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=", "SHA-256 of abc");
    sha256_base64("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hash);
    is(hash, "JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE=", "SHA-256 of two blocks");
    return done_testing();
}
