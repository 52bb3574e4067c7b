/* SPDX-License-Identifier: Apache-2.0 */
#include "split.h"
#include "split_rules.h"

#include <string.h>

void split_begin(struct splitter *splitter, const uint8_t *text, size_t length)
{
    splitter->text = text;
    splitter->length = length;
    splitter->base = splitter->scanned = splitter->decoded = 0;
    splitter->count = 0;
    splitter->set = splitter->clear = 0;
    if (splitter->options.rule == SPLIT_STEPS)
        stepping_begin(&splitter->stepping, splitter->steps, text, length);
    if (!splitter->engine)
        splitter->engine = engine_best();
}

int split_next(struct splitter *splitter)
{
    size_t size = splitter->length - splitter->scanned;

    if (size == 0)
        return 0;
    if (size > SPLIT_CHUNK)
        size = SPLIT_CHUNK;
    splitter->base = splitter->scanned;
    switch (splitter->options.rule) {
    case SPLIT_GPT2:
        splitter->engine->gpt2(splitter, size);
        break;
    case SPLIT_CUTS:
        splitter->engine->cuts(splitter, size);
        break;
    case SPLIT_LLAMA3:
    case SPLIT_CASED:
        size = split_quick(splitter, size);
        break;
    case SPLIT_STEPS:
        size = split_steps(splitter, size);
        break;
    case SPLIT_BERT:
        size = split_bert(splitter, size);
    }
    splitter->scanned += size;
    /* The end of the text is the last end. */
    if (splitter->scanned == splitter->length)
        splitter->ends[splitter->count++] = (uint32_t)(splitter->scanned - splitter->base);
    return 1;
}
