/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "cutter.h"
#include "data/tokenizer/unicode.h"

#include <string.h>

#define SPACE_MARK "\xE2\x96\x81" /* U+2581, SentencePiece's space */

const struct split_options *cutter_split(const struct learn_config *config)
{
    static const struct split_options options[] = {
        [LEARN_GPT2] = {.rule = SPLIT_GPT2},
        [LEARN_LLAMA3] = {.rule = SPLIT_LLAMA3, .digits = 3},
        [LEARN_O200K] = {.rule = SPLIT_CASED, .digits = 3},
    };

    return &options[config->split];
}

int cutter_init(struct cutter *cutter, const struct learn_config *config, struct error *err)
{
    const char *pattern = split_pattern(cutter_split(config));

    memset(cutter, 0, sizeof(*cutter));
    cutter->type = config->type;
    cutter->split_scripts = config->split_scripts;
    if (config->type == LEARN_BPE) {
        cutter->splitter.options = *cutter_split(config);
        cutter->splitter.steps = &cutter->steps;
        return steps_add(&cutter->steps, pattern, strlen(pattern), 0, STEP_ISOLATED, 0, 0, err);
    }
    cutter->splitter.options = (struct split_options){.rule = SPLIT_BERT};
    if (config->type == LEARN_WORDPIECE) {
        cutter->rewrites.count = 1;
        cutter->rewrites.list[0] = (struct rewrite){.kind = REWRITE_BERT,
                                                    .clean = 1,
                                                    .chinese = 1,
                                                    .accents = !config->cased,
                                                    .lower = !config->cased};
    }
    return 0;
}

void cutter_clear(struct cutter *cutter)
{
    steps_clear(&cutter->steps);
    rewrites_clear(&cutter->rewrites);
    rewriting_clear(&cutter->rewriting);
    text_buffer_clear(&cutter->word);
}

static int is_blank(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Length of the white space at 'at', or 0. To SentencePiece, its mark is a space. */
static size_t blank_length(const uint8_t *at, const uint8_t *end)
{
    size_t mark = strlen(SPACE_MARK);

    if (is_blank(*at))
        return 1;
    return (size_t)(end - at) >= mark && memcmp(at, SPACE_MARK, mark) == 0 ? mark : 0;
}

/* The end of the characters at 'at' that have the same script, or of the word. Digits and
 * punctuation, which SentencePiece does not mix with letters, are a script in this sense. */
static const uint8_t *part_end(const struct cutter *cutter, const uint8_t *at, const uint8_t *end)
{
    uint8_t script = SCRIPT_INHERITED; /* not known yet */

    while (at < end && blank_length(at, end) == 0) {
        uint32_t point;
        size_t length = utf8_decode(at, end, &point);
        uint8_t next = point == UNICODE_INVALID ? SCRIPT_COMMON : unicode_script(point);

        if (script == SCRIPT_INHERITED)
            script = next;
        if (cutter->split_scripts && next != script && next != SCRIPT_INHERITED)
            break;
        at += length;
    }
    return at;
}

/* Parts of one script of the words between spaces, the first with SentencePiece's mark before it:
 * its trainer makes no piece that extends beyond them. */
static void count_marked(struct cutter *cutter, const uint8_t *at, size_t size,
                         struct word_counts *counts)
{
    const uint8_t *begin = at, *end = at + size;
    int starts = 1; /* a word */

    while (begin < end) {
        size_t blank = blank_length(begin, end);

        if (blank > 0) {
            begin += blank;
            starts = 1;
            continue;
        }
        at = part_end(cutter, begin, end);
        cutter->word.length = 0;
        if (starts)
            text_buffer_put(&cutter->word, SPACE_MARK, strlen(SPACE_MARK));
        text_buffer_put(&cutter->word, begin, (size_t)(at - begin));
        word_counts_add(counts, cutter->word.data, cutter->word.length, 1);
        begin = at;
        starts = 0;
    }
}

int cutter_count(struct cutter *cutter, const char *text, size_t size, struct word_counts *counts,
                 struct error *err)
{
    struct splitter *splitter = &cutter->splitter;
    const uint8_t *data = (const uint8_t *)text;
    size_t begin = 0;

    if (cutter->type == LEARN_UNIGRAM) {
        count_marked(cutter, data, size, counts);
        return 0;
    }
    if (rewrites_run(&cutter->rewrites, &cutter->rewriting, &data, &size) < 0)
        return error_set(err, "a text of %zu bytes is too long; split it", size);
    split_begin(splitter, data, size);
    while (split_next(splitter))
        for (size_t i = 0; i < splitter->count; i++) {
            size_t end = splitter->base + splitter->ends[i];

            /* BERT's white space begins a word and is not part of it. */
            while (cutter->type == LEARN_WORDPIECE && begin < end && is_blank(data[begin]))
                begin++;
            if (begin < end)
                word_counts_add(counts, data + begin, end - begin, 1);
            begin = end;
        }
    return 0;
}
