/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "document.h"
#include "data/corpus/corpus.h"
#include "data/corpus/wiki.h"

#include <string.h>

enum { BLOCK_SIZE = 256 << 10 };

/* The first key whose text the tokenizer rejects, or 'count'. */
static size_t refused_key(const struct tokenizer *tokenizer, const struct jsonl *jsonl,
                          size_t count)
{
    for (size_t k = 0; k < count; k++) {
        size_t texts;
        const struct jsonl_text *text = jsonl_texts(jsonl, k, &texts);

        for (size_t i = 0; i < texts; i++)
            if (!tokenizer_accepts(tokenizer, text[i].data, text[i].size))
                return k;
    }
    return count;
}

/* The text of a record in a format other than JSON. */
static struct jsonl_text plain_text(struct document_parser *parser,
                                    const struct preprocess_config *config,
                                    const struct record *record)
{
    if (parser->wikitext)
        return (struct jsonl_text){.data = parser->document.text.data,
                                   .size = parser->document.text.size};
    if (!config->detokenize)
        return (struct jsonl_text){.data = record->data, .size = record->size};
    return (struct jsonl_text){.data = parser->plain.data, .size = parser->plain.size};
}

enum document_fault document_check(const struct preprocess_config *config,
                                   const struct tokenizer *tokenizer,
                                   struct document_parser *parser, const struct record_block *block,
                                   const struct record *record, size_t *key)
{
    enum document_fault fault;
    struct jsonl_text text;

    *key = 0;
    if (record->length > (size_t)config->max_line) {
        struct wiki_page page;

        if (parser->wikitext) {
            mediawiki_page(record->data, record->size, &page);
            parser->document.title = page.title;
        }
        return FAULT_LENGTH;
    }
    if (parser->wikitext) {
        fault = wikitext_page(parser->wikitext, record->data, record->size, block->site,
                              &parser->document);
        if (fault != FAULT_NONE)
            return fault;
    }
    if (config->mode != RECORD_JSON) {
        if (config->detokenize)
            detokenize(record->data, record->size, &parser->plain);
        text = plain_text(parser, config, record);
        return !tokenizer || tokenizer_accepts(tokenizer, text.data, text.size) ? FAULT_NONE
                                                                                : FAULT_IDS;
    }
    fault = jsonl_parse(parser->jsonl, record->data, record->size);
    if (fault != FAULT_NONE) {
        *key = jsonl_fault_key(parser->jsonl);
        return fault;
    }
    if (!tokenizer)
        return FAULT_NONE;
    *key = refused_key(tokenizer, parser->jsonl, config->key_count);
    return *key < config->key_count ? FAULT_IDS : FAULT_NONE;
}

const struct jsonl_text *document_texts(struct document_parser *parser,
                                        const struct preprocess_config *config,
                                        const struct record *record, size_t key, size_t *count,
                                        struct jsonl_text *room)
{
    if (parser->jsonl)
        return jsonl_texts(parser->jsonl, key, count);
    *room = plain_text(parser, config, record);
    *count = 1;
    return room;
}

/* Count the faults of one block. '*documents' is reduced by the documents it has. */
static void count_in_block(const struct preprocess_config *config,
                           const struct tokenizer *tokenizer, struct document_parser *parser,
                           const struct record_block *block, int64_t *documents, int64_t *faults,
                           struct part_fault *last)
{
    struct record_cursor cursor = {0, 0};
    struct record record;

    if (block->too_long)
        faults[FAULT_LENGTH]++;
    while (!block->too_long && *documents > 0 &&
           record_next(config->mode, block, &cursor, &record)) {
        size_t key;
        enum document_fault fault = document_check(config, tokenizer, parser, block, &record, &key);

        if (fault != FAULT_NONE) {
            faults[fault]++;
            continue;
        }
        --*documents;
        last->segment = block->segment;
        last->line = (uint64_t)(block->first_line + record.line);
        if (!parser->wikitext)
            continue;
        /* The faults of a kept page are inside it. */
        last->line += record.size;
        if (parser->document.unclosed.fault != FAULT_NONE)
            faults[parser->document.unclosed.fault]++;
    }
}

int document_parser_open(struct document_parser *parser, const struct preprocess_config *config,
                         struct error *err)
{
    memset(parser, 0, sizeof(*parser));
    if (config->mode == RECORD_JSON)
        parser->jsonl = jsonl_create(config->keys, config->key_count, err);
    if (config->mode == RECORD_PAGE)
        parser->wikitext = wikitext_create(&config->wiki);
    return config->mode == RECORD_JSON && !parser->jsonl ? -1 : 0;
}

void document_parser_close(struct document_parser *parser)
{
    jsonl_destroy(parser->jsonl);
    wikitext_destroy(parser->wikitext);
    wiki_buffer_clear(&parser->plain);
}

void document_parser_trim(struct document_parser *parser)
{
    if (parser->jsonl)
        jsonl_trim(parser->jsonl);
    if (parser->wikitext)
        wikitext_trim(parser->wikitext);
    wiki_buffer_reset(&parser->plain);
}

int document_count_block(const struct preprocess_config *config, const struct tokenizer *tokenizer,
                         const struct record_block *block, int64_t documents, int64_t *faults,
                         struct part_fault *last, struct error *err)
{
    struct document_parser parser;
    int rc = document_parser_open(&parser, config, err);

    if (rc == 0)
        count_in_block(config, tokenizer, &parser, block, &documents, faults, last);
    document_parser_close(&parser);
    return rc;
}

int document_count_faults(const struct preprocess_config *config, const struct input_plan *plan,
                          const struct tokenizer *tokenizer, size_t chunk, int64_t documents,
                          int64_t *faults, struct part_fault *last, struct error *err)
{
    size_t first = plan->chunks[chunk], count = plan->chunks[chunk + 1] - first;
    struct record_reader *reader =
        record_reader_create(&plan->files, plan->segments + first, count, config->mode, BLOCK_SIZE,
                             (size_t)config->max_line);
    struct record_block block = {0};
    struct document_parser parser;
    int rc = document_parser_open(&parser, config, err) == 0 ? 1 : -1;

    while (rc > 0 && documents > 0 && (rc = record_reader_next(reader, &block, err)) > 0)
        count_in_block(config, tokenizer, &parser, &block, &documents, faults, last);
    record_block_clear(&block);
    document_parser_close(&parser);
    record_reader_destroy(reader);
    return rc < 0 ? -1 : 0;
}

void document_drop_faults(struct part_fault *listed, int64_t *count, const struct part_fault *last)
{
    int64_t kept = 0;

    while (kept < *count &&
           (listed[kept].segment < last->segment ||
            (listed[kept].segment == last->segment && listed[kept].line < last->line)))
        kept++;
    *count = kept;
}
