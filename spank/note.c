/* SPDX-License-Identifier: Apache-2.0 */
#include "note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "parse.h"

void note_format_client(const struct note *note, char buffer[NOTE_TEXT])
{
    snprintf(buffer, NOTE_TEXT,
             "version=%s slurm=%s contract=%d wishes=%u home=%s secret=%s mark=%" PRId64,
             note->version, note->slurm, note->contract, note->wishes, note->home, note->secret,
             note->mark);
}

void note_format_step(const struct note *note, char buffer[NOTE_TEXT])
{
    snprintf(buffer, NOTE_TEXT,
             "master=%s first=%s port=%" PRId64 " start=%" PRId64 " end=%" PRId64
             " refused=%" PRId64,
             note->master, note->first, note->port, note->start, note->end, note->refused);
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

void note_parse(struct note *note, const char *text)
{
    char copy[NOTE_TEXT], *rest = copy, *word;

    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
        return;
    while ((word = strsep(&rest, " "))) {
        char *value = strchr(word, '=');

        if (!value)
            continue;
        *value++ = '\0';
        if (strcmp(word, "version") == 0)
            take_text(note->version, sizeof(note->version), value);
        else if (strcmp(word, "slurm") == 0)
            take_text(note->slurm, sizeof(note->slurm), value);
        else if (strcmp(word, "contract") == 0)
            note->contract = (int)take_number(value, INT32_MAX);
        else if (strcmp(word, "wishes") == 0)
            note->wishes = (unsigned)take_number(value, UINT16_MAX);
        else if (strcmp(word, "master") == 0)
            take_text(note->master, sizeof(note->master), value);
        else if (strcmp(word, "first") == 0)
            take_text(note->first, sizeof(note->first), value);
        else if (strcmp(word, "home") == 0)
            take_text(note->home, sizeof(note->home), value);
        else if (strcmp(word, "secret") == 0)
            take_text(note->secret, sizeof(note->secret), value);
        else if (strcmp(word, "port") == 0)
            note->port = take_number(value, 65535);
        else if (strcmp(word, "mark") == 0)
            note->mark = take_number(value, INT64_MAX);
        else if (strcmp(word, "start") == 0)
            note->start = take_number(value, INT64_MAX);
        else if (strcmp(word, "end") == 0)
            note->end = take_number(value, INT64_MAX);
        else if (strcmp(word, "refused") == 0)
            note->refused = take_number(value, 1);
    }
}
