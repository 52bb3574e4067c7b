/* SPDX-License-Identifier: Apache-2.0 */
#include "handoff.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/parse.h"

void handoff_format_client(const struct handoff *handoff, char buffer[HANDOFF_TEXT])
{
    snprintf(buffer, HANDOFF_TEXT,
             "version=%s slurm=%s contract=%d overrides=%u home=%s secret=%s mark=%" PRId64,
             handoff->version, handoff->slurm, handoff->contract, handoff->overrides, handoff->home,
             handoff->secret, handoff->mark);
}

void handoff_format_step(const struct handoff *handoff, char buffer[HANDOFF_TEXT])
{
    snprintf(buffer, HANDOFF_TEXT,
             "master=%s first=%s port=%" PRId64 " start=%" PRId64 " end=%" PRId64
             " refused=%" PRId64,
             handoff->master, handoff->first, handoff->port, handoff->start, handoff->end,
             handoff->refused);
}

static void take_text(char *target, size_t size, const char *value)
{
    if (strlen(value) < size)
        strcpy(target, value);
}

static int64_t take_number(const char *value, int64_t max)
{
    int64_t number;

    return parse_int64("", value, 0, max, &number, NULL) ? 0 : number;
}

void handoff_parse(struct handoff *handoff, const char *text)
{
    char copy[HANDOFF_TEXT], *rest = copy, *word;

    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
        return;
    while ((word = strsep(&rest, " "))) {
        char *value = strchr(word, '=');

        if (!value)
            continue;
        *value++ = '\0';
        if (strcmp(word, "version") == 0)
            take_text(handoff->version, sizeof(handoff->version), value);
        else if (strcmp(word, "slurm") == 0)
            take_text(handoff->slurm, sizeof(handoff->slurm), value);
        else if (strcmp(word, "contract") == 0)
            handoff->contract = (int)take_number(value, INT32_MAX);
        else if (strcmp(word, "overrides") == 0)
            handoff->overrides = (unsigned)take_number(value, UINT16_MAX);
        else if (strcmp(word, "master") == 0)
            take_text(handoff->master, sizeof(handoff->master), value);
        else if (strcmp(word, "first") == 0)
            take_text(handoff->first, sizeof(handoff->first), value);
        else if (strcmp(word, "home") == 0)
            take_text(handoff->home, sizeof(handoff->home), value);
        else if (strcmp(word, "secret") == 0)
            take_text(handoff->secret, sizeof(handoff->secret), value);
        else if (strcmp(word, "port") == 0)
            handoff->port = take_number(value, 65535);
        else if (strcmp(word, "mark") == 0)
            handoff->mark = take_number(value, INT64_MAX);
        else if (strcmp(word, "start") == 0)
            handoff->start = take_number(value, INT64_MAX);
        else if (strcmp(word, "end") == 0)
            handoff->end = take_number(value, INT64_MAX);
        else if (strcmp(word, "refused") == 0)
            handoff->refused = take_number(value, 1);
    }
}
