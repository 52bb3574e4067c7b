/* SPDX-License-Identifier: Apache-2.0 */
/* Escaping and numbers. */
#include "run/report/chart.h"
#include "tap.h"
#include "run/report/page_parts.h"

#include <math.h>

#define UNKNOWN "\xef\xbf\xbd"

static FILE *stream;
static char text[256];

static FILE *begin(void)
{
    memset(text, 0, sizeof(text));
    return stream = fmemopen(text, sizeof(text), "w");
}

static const char *end(void)
{
    fclose(stream);
    return text;
}

int main(void)
{
    static const struct {
        const char *in, *out;
    } escapes[] = {
        {"plain", "plain"},
        {"<script>alert('x')&\"", "&#60;script&#62;alert(&#39;x&#39;)&#38;&#34;"},
        {"caf\xc3\xa9 \xf0\x9f\x98\x80", "caf\xc3\xa9 \xf0\x9f\x98\x80"},
        {"\x1b[31mred", UNKNOWN "[31mred"},
    };
    static const struct {
        double in;
        const char *out;
    } numbers[] = {{0, "0"},        {1234, "1234"},   {12345, "12.35k"}, {2.5e6, "2.5M"},
                   {3e-5, "3e-05"}, {-0.25, "-0.25"}, {4.2e12, "4.2T"},  {NAN, "\xe2\x80\x93"}},
      durations[] = {
          {0.035, "35 ms"}, {12.34, "12.3 s"}, {600, "10 min"}, {9000, "2.5 h"}, {864000, "10 d"}};

    for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
        text_escape(escapes[i].in, begin());
        is(end(), escapes[i].out, "escaped text");
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        chart_number(begin(), numbers[i].in);
        is(end(), numbers[i].out, "a number");
    }
    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
        chart_duration(begin(), durations[i].in);
        is(end(), durations[i].out, "a duration");
    }
    return done_testing();
}
