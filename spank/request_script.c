/* SPDX-License-Identifier: Apache-2.0 */
/* The #SBATCH lines of a script. */
#include "request.h"
#include "request_private.h"

#include <string.h>

enum { LINE_MAX_BYTES = 4096, LINE_WORDS = 64 };

/* Split the rest of an #SBATCH line into words as a shell would, without expanding anything. */
static int split_line(char *line, char **words)
{
    char *from = line, *to = line;
    int count = 0;

    while (count < LINE_WORDS) {
        char quote = 0;

        while (*from == ' ' || *from == '\t')
            from++;
        if (*from == '\0' || *from == '#')
            break;
        words[count++] = to;
        for (; *from && (quote || (*from != ' ' && *from != '\t')); from++) {
            if (*from == '\\' && from[1] && quote != '\'')
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
    int count;

    if (length >= sizeof(line))
        return;
    memcpy(line, text, length);
    line[length] = '\0';
    if (strlen(line) != length)
        return;
    count = split_line(line, words);
    if (count > 0 && (strcmp(words[0], "hetjob") == 0 || strcmp(words[0], "packjob") == 0)) {
        request_add_component(request);
        return;
    }
    request_options(request, 0, count, words);
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
            if (blank < length && text[0] != '#')
                return; /* the first command */
        }
        text += length + 1;
    }
}
