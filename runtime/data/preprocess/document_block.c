/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "document_block.h"
#include "document.h"
#include "data/corpus/wiki.h"
#include "base/core/list.h"

#include <stdlib.h>
#include <string.h>

/* Copy the title of a page, truncated at a character boundary. */
static void put_title(struct part_fault *fault, struct wiki_span title)
{
    size_t size = title.size < sizeof(fault->title) ? title.size : sizeof(fault->title) - 1;

    while (size > 0 && size < title.size && ((unsigned char)title.data[size] & 0xc0) == 0x80)
        size--;
    if (size > 0)
        memcpy(fault->title, title.data, size);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)fault->title[i] < ' ')
            fault->title[i] = ' ';
    fault->title[size] = '\0';
    fault->page = 1;
}

/* The location of a document, with its title if it is a page. */
static struct part_fault place_of(const struct block *block, int64_t line,
                                  const struct wiki_span *title)
{
    struct part_fault place = {.segment = block->records.segment,
                               .line = (uint64_t)(block->records.first_line + line)};

    if (title)
        put_title(&place, *title);
    return place;
}

static void add_fault(struct block *block, enum document_fault fault, size_t key, int64_t line,
                      const struct wiki_span *title)
{
    struct part_fault listed;

    block->faults[fault]++;
    if (fault >= FAULT_BROKEN_END && fault < FAULT_LEFT_OUT_END)
        return;
    if (fault == FAULT_KEY && block->data.documents == 0)
        block->leading++;
    listed = place_of(block, line, title);
    listed.fault = (uint32_t)fault;
    listed.key = (uint32_t)key;
    part_fault_list(block->listed, &block->listed_count, &listed);
}

/* Encode a text, or one of its sentences, as a sequence. */
static int encode_text(struct block_encoder *with, struct block *block, size_t key,
                       const char *text, size_t size, struct error *err)
{
    struct token_buffer *tokens = &block->data.tokens[key];
    size_t before = tokens->count;

    if (tokenizer_encode(with->encoder, text, size, tokens, err) < 0)
        return -1;
    /* Leave room for the end-of-document token. */
    if (tokens->count - before >= INT32_MAX) {
        error_set(err, "a text has %zu tokens, more than an .idx file can count",
                  tokens->count - before);
        return error_append(err, "; lower --max-line-bytes");
    }
    if (tokens->count > before || with->config->fairseq)
        *list_add(&block->data.entries[key]) = (int32_t)(tokens->count - before);
    return 0;
}

static int encode_sentences(struct block_encoder *with, struct block *block, size_t key,
                            const struct jsonl_text *text, struct error *err)
{
    if (punkt_split(with->punkt, &with->config->punkt_options, text->data, text->size,
                    &with->spans) < 0)
        return error_set(err, "sentences: out of memory");
    for (size_t i = 0; i < with->spans.count; i++) {
        const struct punkt_span *span = &with->spans.items[i];

        if (encode_text(with, block, key, text->data + span->begin, span->end - span->begin, err) <
            0)
            return -1;
    }
    return 0;
}

/* Encode the texts of one key. The end-of-document token follows the last one. */
static int encode_texts(struct block_encoder *with, struct block *block, size_t key,
                        const struct jsonl_text *texts, size_t count, struct error *err)
{
    struct token_buffer *tokens = &block->data.tokens[key];
    struct entry_list *entries = &block->data.entries[key];
    size_t first = entries->count;

    for (size_t i = 0; i < count; i++)
        if ((with->punkt ? encode_sentences(with, block, key, &texts[i], err)
                         : encode_text(with, block, key, texts[i].data, texts[i].size, err)) < 0)
            return -1;
    if (entries->count == first) {
        *list_add(entries) = ENTRY_LAST;
        return 0;
    }
    if (with->config->append_eod) {
        if (tokenizer_append(with->encoder, tokenizer_eod(with->tokenizer), tokens, err) < 0)
            return -1;
        entries->items[entries->count - 1]++;
    }
    entries->items[entries->count - 1] |= ENTRY_LAST;
    return 0;
}

static int encode_record(struct block_encoder *with, struct block *block,
                         const struct record *record, struct error *err)
{
    const struct preprocess_config *config = with->config;
    struct jsonl_text room;
    size_t key;
    enum document_fault fault =
        document_check(config, with->tokenizer, &with->parser, &block->records, record, &key);
    const struct wiki_span *title = with->parser.wikitext ? &with->parser.document.title : NULL;
    const struct wiki_unclosed *unclosed = &with->parser.document.unclosed;

    if (fault != FAULT_NONE) {
        add_fault(block, fault, key, record->line, title);
        if (fault == FAULT_KEY && !block->names[0])
            jsonl_names(with->parser.jsonl, record->data, record->size, block->names,
                        sizeof(block->names));
        return 0;
    }
    for (size_t k = 0; k < config->key_count; k++) {
        size_t count;
        const struct jsonl_text *texts =
            document_texts(&with->parser, config, record, k, &count, &room);

        if (encode_texts(with, block, k, texts, count, err) < 0) {
            block->failed = place_of(block, record->line, title);
            return -1;
        }
    }
    block->data.documents++;
    if (with->parser.wikitext && unclosed->fault != FAULT_NONE)
        add_fault(block, unclosed->fault, unclosed->tag, record->line + (int64_t)unclosed->place,
                  title);
    return 0;
}

int block_encode(struct block_encoder *with, struct block *block, struct error *err)
{
    static const struct wiki_span nowhere = {"", 0};
    enum record_mode mode = with->config->mode;
    struct record_cursor cursor = {0, 0};
    struct record record;
    int rc = 0;

    if (block->records.too_long) {
        struct wiki_page page = {0};

        if (mode == RECORD_PAGE)
            mediawiki_page(block->records.data, block->records.head, &page);
        add_fault(block, FAULT_LENGTH, 0, 0, mode == RECORD_PAGE ? &page.title : NULL);
        return 0;
    }
    while (rc == 0 && record_next(mode, &block->records, &cursor, &record)) {
        if (record.size <= BLOCK_LONG_LINE) {
            rc = encode_record(with, block, &record, err);
            continue;
        }
        pthread_mutex_lock(with->long_lock);
        rc = encode_record(with, block, &record, err);
        document_parser_trim(&with->parser);
        pthread_mutex_unlock(with->long_lock);
    }
    /* The file is truncated: counted even between two pages. */
    if (rc == 0 && block->records.cut && block->faults[FAULT_CUT] == 0)
        add_fault(block, FAULT_CUT, 0, (int64_t)block->records.size, &nowhere);
    return rc;
}

void block_reset(struct block *block, size_t keys)
{
    for (size_t k = 0; k < keys; k++) {
        struct token_buffer *tokens = &block->data.tokens[k];
        struct entry_list *entries = &block->data.entries[k];

        /* Free the memory that one huge document needed. */
        if (tokens->capacity > 4 << 20)
            token_buffer_clear(tokens);
        if (entries->room > 1 << 20)
            list_free(entries);
        tokens->count = entries->count = 0;
    }
    block->data.documents = 0;
    block->listed_count = block->leading = 0;
    block->names[0] = '\0';
    memset(block->faults, 0, sizeof(block->faults));
}

void block_clear(struct block *block)
{
    record_block_clear(&block->records);
    for (size_t k = 0; k < PART_KEYS; k++) {
        token_buffer_clear(&block->data.tokens[k]);
        free(block->data.entries[k].items);
    }
}

int block_encoder_open(struct block_encoder *with, const struct preprocess_config *config,
                       const struct tokenizer *tokenizer, const struct punkt *punkt, size_t cache,
                       pthread_mutex_t *long_lock, struct error *err)
{
    with->punkt = punkt;
    with->spans = (struct punkt_spans){0};
    with->config = config;
    with->tokenizer = tokenizer;
    with->long_lock = long_lock;
    with->encoder = encoder_create(tokenizer, cache, err);
    if (!with->encoder)
        return -1;
    return document_parser_open(&with->parser, config, err);
}

void block_encoder_close(struct block_encoder *with)
{
    document_parser_close(&with->parser);
    punkt_spans_clear(&with->spans);
    encoder_destroy(with->encoder);
}
