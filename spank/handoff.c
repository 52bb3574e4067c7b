/* SPDX-License-Identifier: Apache-2.0 */
#include "handoff.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "lib/parse.h"

/* The words of both halves. */
#define AT(member)   offsetof(struct handoff, member)
#define TEXT(member) AT(member), sizeof(((struct handoff *)0)->member), 0
static const struct {
    const char *name;
    enum handoff_half half;
    size_t offset, size; /* 'size' of a text; 0: an int64_t up to 'max' */
    int64_t max;
} words[] = {
    {"version", HANDOFF_CLIENT, TEXT(version)},
    {"slurm", HANDOFF_CLIENT, TEXT(slurm)},
    {"contract", HANDOFF_CLIENT, AT(contract), 0, INT32_MAX},
    {"overrides", HANDOFF_CLIENT, AT(overrides), 0, UINT16_MAX},
    {"home", HANDOFF_CLIENT, TEXT(home)},
    {"secret", HANDOFF_CLIENT, TEXT(secret)},
    {"mark", HANDOFF_CLIENT, AT(mark), 0, INT64_MAX},
    {"master", HANDOFF_OF_STEP, TEXT(master)},
    {"first", HANDOFF_OF_STEP, TEXT(first)},
    {"port", HANDOFF_OF_STEP, AT(port), 0, 65535},
    {"start", HANDOFF_OF_STEP, AT(start), 0, INT64_MAX},
    {"end", HANDOFF_OF_STEP, AT(end), 0, INT64_MAX},
    {"refused", HANDOFF_OF_STEP, AT(refused), 0, 1},
};
#undef TEXT
#undef AT
enum { WORDS = sizeof(words) / sizeof(words[0]) };

void handoff_format(const struct handoff *handoff, enum handoff_half half,
                    char buffer[HANDOFF_TEXT])
{
    buffer[0] = '\0';
    for (size_t i = 0; i < WORDS; i++) {
        const char *value = (const char *)handoff + words[i].offset;

        if (words[i].half != half)
            continue;
        if (words[i].size > 0)
            list_text_add(buffer, HANDOFF_TEXT, " ", "%s=%s", words[i].name, value);
        else
            list_text_add(buffer, HANDOFF_TEXT, " ", "%s=%" PRId64, words[i].name,
                          *(const int64_t *)(const void *)value);
    }
}

void handoff_parse(struct handoff *handoff, const char *text)
{
    char copy[HANDOFF_TEXT], *rest = copy, *word;

    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
        return;
    while ((word = strsep(&rest, " "))) {
        char *value = strchr(word, '='), *target;
        size_t i = 0;

        if (!value)
            continue;
        *value++ = '\0';
        while (i < WORDS && strcmp(words[i].name, word) != 0)
            i++;
        if (i == WORDS)
            continue;
        target = (char *)handoff + words[i].offset;
        if (words[i].size > strlen(value))
            strcpy(target, value);
        else if (words[i].size == 0 &&
                 parse_int64("", value, 0, words[i].max, (int64_t *)(void *)target, NULL) < 0)
            *(int64_t *)(void *)target = 0;
    }
}
