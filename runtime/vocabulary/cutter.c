/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "cutter.h"
#include "remedy.h"

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

/* Words between spaces, each with SentencePiece's mark before it. */
static int count_marked(struct cutter *cutter, const uint8_t *at, size_t size,
                        struct word_counts *counts, struct error *err)
{
    const uint8_t *end = at + size;

    for (;;) {
        const uint8_t *begin;

        while (at < end && is_blank(*at))
            at++;
        begin = at;
        while (at < end && !is_blank(*at))
            at++;
        if (at == begin)
            return 0;
        cutter->word.length = 0;
        if (text_buffer_put(&cutter->word, SPACE_MARK, strlen(SPACE_MARK)) < 0 ||
            text_buffer_put(&cutter->word, begin, (size_t)(at - begin)) < 0)
            return error_set(err, "out of memory");
        if (word_counts_add(counts, cutter->word.data, cutter->word.length, 1, err) < 0)
            return -1;
    }
}

/* BERT's white space begins a word and is not part of it. */
static int count_word(const struct cutter *cutter, const uint8_t *begin, const uint8_t *end,
                      struct word_counts *counts, struct error *err)
{
    while (cutter->type == LEARN_WORDPIECE && begin < end && is_blank(*begin))
        begin++;
    return begin == end ? 0 : word_counts_add(counts, begin, (size_t)(end - begin), 1, err);
}

int cutter_count(struct cutter *cutter, const char *text, size_t size, struct word_counts *counts,
                 struct error *err)
{
    struct splitter *splitter = &cutter->splitter;
    const uint8_t *data = (const uint8_t *)text;
    size_t begin = 0;

    if (cutter->type == LEARN_UNIGRAM)
        return count_marked(cutter, data, size, counts, err);
    if (rewrites_run(&cutter->rewrites, &cutter->rewriting, &data, &size) < 0)
        return error_memory(err, "a text of %zu bytes", size);
    split_begin(splitter, data, size);
    while (split_next(splitter))
        for (size_t i = 0; i < splitter->count; i++) {
            size_t end = splitter->base + splitter->ends[i];

            if (count_word(cutter, data + begin, data + end, counts, err) < 0)
                return -1;
            begin = end;
        }
    return 0;
}
