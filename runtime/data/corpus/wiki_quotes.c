/* SPDX-License-Identifier: Apache-2.0 */
/* Bold and italic apostrophes, by MediaWiki's rule, separately for each line, table cell and link
 * label. */
#include "config.h"
#include "wiki_inline.h"

size_t wiki_apostrophes(size_t count)
{
    return count == 1 || count == 4 ? 1 : count > 5 ? count - 5 : 0;
}

static size_t run_length(const char *at, const char *end)
{
    size_t count = 0;

    while (at + count < end && at[count] == '\'')
        count++;
    return count;
}

/* Find the next run of at least two apostrophes, or NULL. */
static char *next_run(char *at, char *end, size_t *count)
{
    while ((at = memchr(at, '\'', (size_t)(end - at)))) {
        *count = run_length(at, end);
        if (*count > 1)
            return at;
        at++;
    }
    return NULL;
}

/* The two characters before 'at' that are not marks; 0 at the start. */
static char before(const char *from, const char **at)
{
    while (*at > from) {
        --*at;
        if (**at < WIKI_DROPPED || **at > WIKI_CELL)
            return **at;
    }
    return 0;
}

/* Where neither bold nor italics pair up, choose the bold run that is an apostrophe and italics:
 * the first after a one-letter word, else after a longer word, else after a space. Returns NULL if
 * there is none. */
static char *odd_run(char *from, char *end)
{
    char *word = NULL, *space = NULL;
    size_t count;

    for (char *at = from; (at = next_run(at, end, &count)); at += count) {
        char *bold = at + count - 3;
        const char *place = bold;
        char last;

        if (count != 3 && count != 4)
            continue;
        last = before(from, &place);
        if (last == ' ')
            space = space ? space : bold;
        else if (last && before(from, &place) == ' ')
            return bold;
        else
            word = word ? word : bold;
    }
    return word ? word : space;
}

static void pair_up(char *from, char *end)
{
    size_t count, italics = 0, bold = 0;
    char *odd;

    for (char *at = from; (at = next_run(at, end, &count)); at += count) {
        italics += count == 2 || count >= 5;
        bold += count >= 3;
    }
    odd = italics & bold & 1 ? odd_run(from, end) : NULL;
    if (odd)
        *odd = WIKI_APOSTROPHE;
}

void wiki_quotes(struct wiki_buffer *text)
{
    char *at = text->data, *end = at + text->size, *done = at;

    if (text->size == 0)
        return;
    /* If italics pair up, the rest is bold. */
    while ((at = memmem(done, (size_t)(end - done), "'''", 3))) {
        char *stop = at;

        while (at > done && at[-1] != '\n' && at[-1] != WIKI_CELL)
            at--;
        while (stop < end && *stop != '\n' && *stop != WIKI_CELL)
            stop++;
        pair_up(at, stop);
        done = stop;
    }
}

size_t wiki_link_quotes(char *text, size_t size, int label)
{
    char *out = text, *end = text + size;

    if (label)
        pair_up(text, end);
    for (char *at = text; at < end;) {
        size_t count = run_length(at, end);

        if (count == 0) {
            *out++ = *at++;
            continue;
        }
        at += count;
        for (count = label ? wiki_apostrophes(count) : count; count > 0; count--)
            *out++ = WIKI_APOSTROPHE;
    }
    return (size_t)(out - text);
}
