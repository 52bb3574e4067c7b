/* SPDX-License-Identifier: Apache-2.0 */
/* The time that remains, as the log line has it. */
#include "run/train/log_line.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

int main(void)
{
    static const struct {
        double seconds;
        const char *shown;
    } rows[] = {{-1, NULL},       {0, "0s"},        {0.4, "0s"},
                {42.4, "42s"},    {59.6, "59s"},    {60, "0h 01m"},
                {3599, "0h 59m"}, {3660, "1h 01m"}, {86400, "24h 00m"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct log_line line = {.teraflops = -1, .params_norm = -1, .eta = rows[i].seconds};
        char *text, *eta, *end;
        size_t size;
        FILE *stream = open_memstream(&text, &size);

        log_line_print(&line, stream);
        fclose(stream);
        eta = strstr(text, "ETA: ");
        if (!rows[i].shown) {
            ok(!eta, "no ETA");
            free(text);
            continue;
        }
        end = eta ? strstr(eta, " |") : NULL;
        if (end)
            *end = '\0';
        is(end ? eta + strlen("ETA: ") : "", rows[i].shown, rows[i].shown);
        free(text);
    }
    return done_testing();
}
