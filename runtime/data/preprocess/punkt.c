/* SPDX-License-Identifier: Apache-2.0 */
#include "punkt_private.h"
#include "data/tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>

/* Megatron cuts texts after so many characters: NLTK was slow on long ones. */
enum { LONGEST_TEXT = 1000000 };

#define MARK   BYTE_MARK
#define NON    BYTE_NON_WORD
#define START  BYTE_NO_START
#define CLOSER BYTE_CLOSER
const uint8_t punkt_bytes[256] = {
    ['\t'] = BYTE_SPACE,
    ['\n'] = BYTE_SPACE,
    ['\v'] = BYTE_SPACE,
    ['\f'] = BYTE_SPACE,
    ['\r'] = BYTE_SPACE,
    [0x1C] = BYTE_SPACE,
    [0x1D] = BYTE_SPACE,
    [0x1E] = BYTE_SPACE,
    [0x1F] = BYTE_SPACE,
    [' '] = BYTE_SPACE,
    ['.'] = MARK,
    ['?'] = MARK | NON,
    ['!'] = MARK | NON,
    [')'] = NON | START | CLOSER,
    ['"'] = NON | START | CLOSER,
    [';'] = NON | START,
    ['}'] = NON | START | CLOSER,
    [']'] = NON | START | CLOSER,
    ['*'] = NON | START,
    [':'] = NON | START,
    ['@'] = NON | START,
    ['\''] = NON | CLOSER,
    ['('] = NON | START,
    ['{'] = NON | START,
    ['['] = NON | START,
    ['`'] = START,
    ['&'] = START,
    ['#'] = START,
    ['-'] = START,
    [','] = START,
};

size_t punkt_space(const char *at, const char *end)
{
    uint32_t point;
    size_t size;

    if (at >= end)
        return 0;
    if ((uint8_t)*at < 0x80)
        return punkt_bytes[(uint8_t)*at] & BYTE_SPACE ? 1 : 0;
    /* U+0085, U+00A0, U+1680, U+2000 and so on, U+3000 */
    if (*at != '\xC2' && *at != '\xE1' && *at != '\xE2' && *at != '\xE3')
        return 0;
    size = utf8_decode((const uint8_t *)at, (const uint8_t *)end, &point);
    return point != UNICODE_INVALID && word_is_space(point) ? size : 0;
}

size_t punkt_quote(const char *at, const char *end, int class, int curly)
{
    static const uint32_t quotes[] = {0x2018, 0x2019, 0x201C, 0x201D, 0xAB, 0xBB};
    uint32_t point;
    size_t size;

    if (at >= end)
        return 0;
    if ((uint8_t)*at < 0x80)
        return punkt_bytes[(uint8_t)*at] & class ? 1 : 0;
    if (!curly)
        return 0;
    size = utf8_decode((const uint8_t *)at, (const uint8_t *)end, &point);
    for (size_t i = 0; i < sizeof(quotes) / sizeof(quotes[0]); i++)
        if (point == quotes[i])
            return size;
    return 0;
}

void punkt_spans_clear(struct punkt_spans *spans)
{
    free(spans->items);
    memset(spans, 0, sizeof(*spans));
}

static int add_span(struct punkt_spans *spans, size_t begin, size_t end)
{
    if (spans->count == spans->capacity) {
        size_t capacity = spans->capacity ? 2 * spans->capacity : 64;
        struct punkt_span *items = realloc(spans->items, capacity * sizeof(*items));

        if (!items)
            return -1;
        spans->items = items;
        spans->capacity = capacity;
    }
    spans->items[spans->count++] = (struct punkt_span){begin, end};
    return 0;
}

/* --- Candidates ------------------------------------------------------------------------------ */

/* A mark that may end a sentence. */
struct candidate {
    const char *start;  /* of the match; what comes before it is looked at for the word */
    const char *end;    /* where the sentence would end */
    const char *next;   /* where the next one would begin */
    size_t punctuation; /* its length, if that follows; 0: a token does */
};

struct splitting {
    const struct punkt *punkt;
    const struct punkt_options *options;
    const char *text, *end;
    struct punkt_spans *spans;
    const char *last;          /* where the open sentence begins */
    struct candidate previous; /* with start == NULL: none */
    const char *word, *stop;   /* its slice: the word before it */
    /* Sentences are moved by what the next one begins with. */
    struct punkt_span held;
    int holds, failed;
    size_t realign;
};

static const char *run_end(const char *at, const char *end)
{
    while (at < end) {
        if ((uint8_t)*at < 0x80) {
            if (punkt_bytes[(uint8_t)*at] & BYTE_SPACE)
                break;
            at++;
        } else {
            uint32_t point;

            if (punkt_space(at, end) > 0)
                break;
            at += utf8_decode((const uint8_t *)at, (const uint8_t *)end, &point);
        }
    }
    return at;
}

static const char *skip_space(const char *at, const char *end)
{
    size_t size;

    while ((size = punkt_space(at, end)) > 0)
        at += size;
    return at;
}

/* The closing marks at the start of a sentence that belong to the one before it: ["')\]}]+? and
 * white space, -- or the end of a line after it. '*marks' becomes their length, the result includes
 * the white space; 0: none. */
static size_t closing(const struct splitting *s, const char *at, const char *end, size_t *marks)
{
    const char *from = at;
    size_t size;

    while ((size = punkt_quote(at, end, BYTE_CLOSER, s->options->curly_quotes)) > 0) {
        at += size;
        if (at == end || punkt_space(at, end) > 0) {
            *marks = (size_t)(at - from);
            return (size_t)(skip_space(at, end) - from);
        }
        if (end - at >= 2 && at[0] == '-' && at[1] == '-')
            return *marks = (size_t)(at - from);
    }
    return 0;
}

/* The sentence [begin, end) was found; give out the one before it. */
static void put_sentence(struct splitting *s, const char *begin, const char *end)
{
    struct punkt_span here = {(size_t)(begin - s->text),
                              (size_t)((end > begin ? end : begin) - s->text)};
    size_t marks, moved;

    if (s->holds) {
        struct punkt_span before = {s->held.begin + s->realign, s->held.end};

        moved = closing(s, s->text + here.begin, s->text + here.end, &marks);
        if (moved > 0)
            before.end = here.begin + marks;
        if (moved > 0 || before.end > before.begin)
            s->failed |= add_span(s->spans, before.begin, before.end) < 0;
        s->realign = moved;
    }
    s->held = here;
    s->holds = 1;
}

static void judge(struct splitting *s, const struct candidate *c, const char *word)
{
    /* What follows: the next token, or one punctuation mark. */
    const char *after = c->punctuation > 0 ? c->next + c->punctuation : run_end(c->next, s->end);

    if (!punkt_breaks(s->punkt, word, after, s->options->curly_quotes))
        return;
    put_sentence(s, s->last, c->end);
    s->last = c->next;
}

/* Find the word before a candidate. If that is the word of the candidate before, too, the later one
 * counts. */
static void add_candidate(struct splitting *s, const struct candidate *c)
{
    const char *at = c->start, *word = s->word;

    /* The last ASCII white space since the start of the previous match; a first character does not
     * count. */
    while (at > s->stop && at[-1] != ' ' && !(at[-1] >= '\t' && at[-1] <= '\r'))
        at--;
    if (at > s->stop + 1)
        word = at;
    if (s->previous.start && s->stop <= word)
        judge(s, &s->previous, s->word);
    s->previous = *c;
    s->word = word;
    s->stop = c->start;
}

/* NLTK's: a mark, and punctuation or white space and a token after it. */
static void find_marks(struct splitting *s)
{
    const char *at = s->text, *end = s->end;

    for (;; at++) {
        const char *next;
        size_t size;

        while (at < end && !(punkt_bytes[(uint8_t)*at] & BYTE_MARK))
            at++;
        if (at + 1 >= end)
            return;
        size = punkt_quote(at + 1, end, BYTE_NON_WORD, s->options->curly_quotes);
        if (size > 0) {
            add_candidate(s, &(struct candidate){at, at + 1, at + 1, size});
            continue;
        }
        next = skip_space(at + 1, end);
        if (next > at + 1 && next < end)
            add_candidate(s, &(struct candidate){at, at + 1, next, 0});
    }
}

/* Megatron's with --keep-newlines: the last mark of a run of other characters, and the white space
 * after it. */
static void find_marks_kept(struct splitting *s)
{
    const char *at = s->text;

    while ((at = skip_space(at, s->end)) < s->end) {
        const char *stop = run_end(at, s->end), *mark = stop, *next;
        size_t size;

        while (mark > at && (!(punkt_bytes[(uint8_t)mark[-1]] & BYTE_MARK) ||
                             skip_space(mark, s->end) == s->end))
            mark--;
        if (mark > at) {
            next = skip_space(mark, s->end);
            size = punkt_quote(next, s->end, BYTE_NON_WORD, s->options->curly_quotes);
            add_candidate(s, &(struct candidate){at, next, next, size});
            stop = mark;
        }
        at = stop;
    }
}

static const char *strip_end(const char *text, const char *end)
{
    const char *last = text, *at = text;

    /* From the end, where white space is ASCII. */
    while (end > text && (punkt_bytes[(uint8_t)end[-1]] & BYTE_SPACE))
        end--;
    if (end == text || (uint8_t)end[-1] < 0x80)
        return end;
    for (at = end - text > 64 ? end - 64 : text; at > text && ((uint8_t)*at & 0xC0) == 0x80;)
        at--;
    for (last = at; at < end;) {
        size_t space = punkt_space(at, end);
        uint32_t point;

        at += space > 0 ? space : utf8_decode((const uint8_t *)at, (const uint8_t *)end, &point);
        if (space == 0)
            last = at;
    }
    return last;
}

static int split_piece(const struct punkt *punkt, const struct punkt_options *options,
                       const char *text, const char *end, size_t offset, struct punkt_spans *spans)
{
    struct splitting s = {.punkt = punkt,
                          .options = options,
                          .text = text,
                          .end = end,
                          .spans = spans,
                          .last = text,
                          .word = text,
                          .stop = text};
    size_t first = spans->count;

    if (options->keep_newlines)
        find_marks_kept(&s);
    else
        find_marks(&s);
    if (s.previous.start)
        judge(&s, &s.previous, s.word);
    put_sentence(&s, s.last, strip_end(text, end));
    if (s.held.end > s.held.begin + s.realign)
        s.failed |= add_span(spans, s.held.begin + s.realign, s.held.end) < 0;
    for (size_t i = first; i < spans->count; i++) {
        spans->items[i].begin += offset;
        spans->items[i].end += offset;
    }
    return s.failed ? -1 : 0;
}

int punkt_split(const struct punkt *punkt, const struct punkt_options *options, const char *text,
                size_t length, struct punkt_spans *spans)
{
    const char *at = text, *end = text + length;

    spans->count = 0;
    while (at < end) {
        const char *stop = at;
        size_t characters = 0;

        if ((size_t)(end - at) <= LONGEST_TEXT)
            stop = end;
        while (stop < end) {
            /* The bytes that begin characters. */
            if (((uint8_t)*stop & 0xC0) != 0x80 && ++characters > LONGEST_TEXT)
                break;
            stop++;
        }
        if (split_piece(punkt, options, at, stop, (size_t)(at - text), spans) < 0)
            return -1;
        at = stop;
    }
    return 0;
}
