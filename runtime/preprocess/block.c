#include "config.h"
#include "block.h"
#include "document.h"

#include <stdlib.h>
#include <string.h>

static void add_fault(struct block *block, enum document_fault fault, size_t key, int64_t line)
{
    block->faults[fault]++;
    if (fault == FAULT_KEY && block->data.documents == 0)
        block->leading++;
    if (block->listed_count < PART_FAULTS)
        block->listed[block->listed_count++] = (struct part_fault){
            block->records.segment, (uint64_t)(block->records.first_line + line), (uint32_t)fault,
            (uint32_t)key, 0};
}

/* The texts of one key: a sequence each; the end of the document follows the last one. */
static int encode_texts(struct block_encoder *with, struct block *block, size_t key,
                        const struct jsonl_text *texts, size_t count, struct error *err)
{
    struct token_buffer *tokens = &block->data.tokens[key];
    struct entry_list *entries = &block->data.entries[key];
    size_t first = entries->count;

    for (size_t i = 0; i < count; i++) {
        size_t before = tokens->count;

        if (tokenizer_encode(with->encoder, texts[i].data, texts[i].size, tokens, err) < 0)
            return -1;
        /* The end of the document may follow. */
        if (tokens->count - before >= INT32_MAX)
            return error_set(
                err,
                "a text has %zu tokens, more than an .idx file can count; lower --max-line-bytes",
                tokens->count - before);
        if (tokens->count > before &&
            entry_list_add(entries, (int32_t)(tokens->count - before)) < 0)
            return error_set(err, "out of memory");
    }
    if (entries->count == first) {
        if (entry_list_add(entries, ENTRY_LAST) < 0)
            return error_set(err, "out of memory");
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
    struct jsonl_text text = {record->data, record->size};
    size_t key;
    enum document_fault fault = document_check(config, with->tokenizer, with->jsonl, record, &key);

    if (fault != FAULT_NONE) {
        add_fault(block, fault, key, record->line);
        if (fault == FAULT_KEY && !block->names[0])
            jsonl_names(with->jsonl, record->data, record->size, block->names,
                        sizeof(block->names));
        return 0;
    }
    for (size_t k = 0; k < config->key_count; k++) {
        size_t count = 1;
        const struct jsonl_text *texts = with->jsonl ? jsonl_texts(with->jsonl, k, &count) : &text;

        if (encode_texts(with, block, k, texts, count, err) < 0)
            return -1;
    }
    block->data.documents++;
    return 0;
}

int block_encode(struct block_encoder *with, struct block *block, struct error *err)
{
    enum record_mode mode = with->config->mode;
    struct record_cursor cursor = {0, 0};
    struct record record;
    int rc = 0;

    if (block->records.too_long) {
        add_fault(block, FAULT_LENGTH, 0, 0);
        return 0;
    }
    while (rc == 0 && record_next(mode, &block->records, &cursor, &record)) {
        if (record.size <= BLOCK_LONG_LINE) {
            rc = encode_record(with, block, &record, err);
            continue;
        }
        pthread_mutex_lock(with->long_lock);
        rc = encode_record(with, block, &record, err);
        if (with->jsonl)
            jsonl_trim(with->jsonl);
        pthread_mutex_unlock(with->long_lock);
    }
    return rc;
}

void block_reset(struct block *block, size_t keys)
{
    for (size_t k = 0; k < keys; k++) {
        struct token_buffer *tokens = &block->data.tokens[k];
        struct entry_list *entries = &block->data.entries[k];

        /* What one huge document took is given back. */
        if (tokens->capacity > 4 << 20)
            token_buffer_clear(tokens);
        if (entries->capacity > 1 << 20) {
            free(entries->items);
            memset(entries, 0, sizeof(*entries));
        }
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
                       const struct tokenizer *tokenizer, size_t cache, pthread_mutex_t *long_lock,
                       struct error *err)
{
    with->config = config;
    with->tokenizer = tokenizer;
    with->long_lock = long_lock;
    with->encoder = encoder_create(tokenizer, cache, err);
    if (!with->encoder)
        return -1;
    if (config->mode == RECORD_JSON)
        with->jsonl = jsonl_create(config->keys, config->key_count, err);
    return config->mode == RECORD_JSON && !with->jsonl ? -1 : 0;
}

void block_encoder_close(struct block_encoder *with)
{
    jsonl_destroy(with->jsonl);
    encoder_destroy(with->encoder);
}
