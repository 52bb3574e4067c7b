/* SPDX-License-Identifier: Apache-2.0 */
/* The #SBATCH lines of a script. */
#include "request.h"

#include <stdio.h>
#include <string.h>

enum { LINE_MAX_BYTES = 4096, LINE_WORDS = 64 };

/* Split the rest of an #SBATCH line into words as sbatch does: an unquoted # ends the line, also
 * inside a word, and a backslash escapes within both kinds of quotes. Sets 'cut' if the last word
 * ends at such a #. */
static int split_line(char *line, char **words, bool *cut)
{
    char *from = line, *to = line;
    int count = 0;

    *cut = false;
    while (count < LINE_WORDS && !*cut) {
        char quote = 0;

        while (*from == ' ' || *from == '\t')
            from++;
        if (*from == '\0' || *from == '#')
            break;
        words[count++] = to;
        for (; *from && (quote || (*from != ' ' && *from != '\t')); from++) {
            *cut = *from == '#' && !quote;
            if (*cut)
                break;
            if (*from == '\\' && from[1])
                *to++ = *++from;
            else if (quote ? *from == quote : (*from == '"' || *from == '\''))
                quote = quote ? 0 : *from;
            else
                *to++ = *from;
        }
        if (*from)
            from++;
        *to++ = '\0';
    }
    return count;
}

static void read_line(struct request *request, const char *text, size_t length)
{
    char line[LINE_MAX_BYTES], *words[LINE_WORDS];
    bool cut;
    int count;

    if (length >= sizeof(line))
        return;
    memcpy(line, text, length);
    line[length] = '\0';
    if (strlen(line) != length)
        return;
    count = split_line(line, words, &cut);
    if (count > 0 && (strcmp(words[0], "hetjob") == 0 || strcmp(words[0], "packjob") == 0)) {
        request_add_component(request);
        return;
    }
    /* The last word is an option of ours, or its value. */
    if (request_options(request, 0, count, words) == count && cut && request->last >= 0)
        request->cut |= 1U << request->last;
}

void request_script(struct request *request, const char *text, size_t size)
{
    static const char mark[] = "#SBATCH";
    const char *end = text + size;

    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t length = (size_t)((newline ? newline : end) - text);
        size_t blank = 0;

        if (length > sizeof(mark) - 1 && memcmp(text, mark, sizeof(mark) - 1) == 0 &&
            (text[sizeof(mark) - 1] == ' ' || text[sizeof(mark) - 1] == '\t')) {
            size_t tail = length > 0 && text[length - 1] == '\r' ? 1 : 0;

            read_line(request, text + sizeof(mark) - 1, length - (sizeof(mark) - 1) - tail);
        } else {
            while (blank < length &&
                   (text[blank] == ' ' || text[blank] == '\t' || text[blank] == '\r'))
                blank++;
            if (blank < length && text[blank] != '#')
                return; /* the first command */
        }
        text += length + 1;
    }
}

void request_script_words(struct request *request, const char *text, int count, char *const *words)
{
    static const char option[] = "--megatron-model";

    if (!strstr(text, "/recipe.bash"))
        return;
    for (int i = 0; i < count; i++) {
        const char *value = NULL;

        if (strncmp(words[i], option, sizeof(option) - 1) != 0)
            continue;
        if (words[i][sizeof(option) - 1] == '=')
            value = words[i] + sizeof(option);
        else if (words[i][sizeof(option) - 1] == '\0' && i + 1 < count)
            value = words[i + 1];
        if (value && strcmp(value, "list") != 0)
            snprintf(request->model, sizeof(request->model), "%s", value);
    }
}
