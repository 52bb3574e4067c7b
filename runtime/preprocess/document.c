#include "config.h"
#include "document.h"

enum { BLOCK_SIZE = 256 << 10 };

/* The first key with a text that the tokenizer does not take, or 'count'. */
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

enum document_fault document_check(const struct preprocess_config *config,
                                   const struct tokenizer *tokenizer, struct jsonl *jsonl,
                                   const struct record *record, size_t *key)
{
    enum document_fault fault;

    *key = 0;
    if (record->length > (size_t)config->max_line)
        return FAULT_LENGTH;
    if (config->mode != RECORD_JSON)
        return tokenizer_accepts(tokenizer, record->data, record->size) ? FAULT_NONE : FAULT_IDS;
    fault = jsonl_parse(jsonl, record->data, record->size);
    if (fault != FAULT_NONE) {
        *key = jsonl_fault_key(jsonl);
        return fault;
    }
    *key = refused_key(tokenizer, jsonl, config->key_count);
    return *key < config->key_count ? FAULT_IDS : FAULT_NONE;
}

/* The same for one block, with a parser that is there. '*documents' becomes what is left of it. */
static void count_in_block(const struct preprocess_config *config,
                           const struct tokenizer *tokenizer, struct jsonl *jsonl,
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
        enum document_fault fault = document_check(config, tokenizer, jsonl, &record, &key);

        if (fault != FAULT_NONE) {
            faults[fault]++;
            continue;
        }
        --*documents;
        last->segment = block->segment;
        last->line = (uint64_t)(block->first_line + record.line);
    }
}

/* The parser that the mode needs. Returns 0 or -1. */
static int make_parser(const struct preprocess_config *config, struct jsonl **jsonl,
                       struct error *err)
{
    *jsonl = NULL;
    if (config->mode == RECORD_JSON)
        *jsonl = jsonl_create(config->keys, config->key_count, err);
    return *jsonl || config->mode != RECORD_JSON ? 0 : -1;
}

int document_count_block(const struct preprocess_config *config, const struct tokenizer *tokenizer,
                         const struct record_block *block, int64_t documents, int64_t *faults,
                         struct part_fault *last, struct error *err)
{
    struct jsonl *jsonl;

    if (make_parser(config, &jsonl, err) < 0)
        return -1;
    count_in_block(config, tokenizer, jsonl, block, &documents, faults, last);
    jsonl_destroy(jsonl);
    return 0;
}

int document_count_faults(const struct preprocess_config *config, const struct plan *plan,
                          const struct tokenizer *tokenizer, size_t chunk, int64_t documents,
                          int64_t *faults, struct part_fault *last, struct error *err)
{
    size_t first = plan->chunks[chunk], count = plan->chunks[chunk + 1] - first;
    struct record_reader *reader =
        record_reader_create(&plan->files, plan->segments + first, count, config->mode, BLOCK_SIZE,
                             (size_t)config->max_line, err);
    struct record_block block = {0};
    struct jsonl *jsonl;
    int rc = make_parser(config, &jsonl, err) == 0 && reader ? 1 : -1;

    while (rc > 0 && documents > 0 && (rc = record_reader_next(reader, &block, err)) > 0)
        count_in_block(config, tokenizer, jsonl, &block, &documents, faults, last);
    record_block_clear(&block);
    jsonl_destroy(jsonl);
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
