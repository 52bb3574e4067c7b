/* SPDX-License-Identifier: Apache-2.0 */
#include "vocabulary.h"
#include "bpe.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

#define BYTES_LIMIT (UINT64_C(1) << 28)

void vocabulary_clear(struct vocabulary *vocabulary)
{
    free(vocabulary->entries);
    free(vocabulary->bytes);
    memset(vocabulary, 0, sizeof(*vocabulary));
}

static void *grow(void *memory, size_t *capacity, size_t wanted, size_t size)
{
    if (wanted <= *capacity)
        return memory;
    if (*capacity == 0)
        *capacity = 1024;
    while (*capacity < wanted)
        *capacity *= 2;
    return xrealloc(memory, *capacity, size);
}

int vocabulary_set(struct vocabulary *vocabulary, int64_t id, const void *text, size_t length,
                   enum vocabulary_kind kind, struct error *err)
{
    struct vocabulary_entry *entry;
    size_t wanted = (size_t)id + 1;

    if (id < 0)
        return error_set(err, "its id is %lld, but token ids cannot be negative", (long long)id);
    if (id >= (int64_t)BPE_SYMBOL_LIMIT - 1)
        return error_set(err, "id %lld is above %u, the largest that is supported" OTHER_TOKENIZER,
                         (long long)id, BPE_SYMBOL_LIMIT - 2);
    if (length > BYTES_LIMIT - vocabulary->byte_count)
        return error_set(err,
                         "the tokens have more than %llu bytes in all, the most that are "
                         "supported" OTHER_TOKENIZER,
                         (unsigned long long)BYTES_LIMIT);
    vocabulary->entries =
        grow(vocabulary->entries, &vocabulary->capacity, wanted, sizeof(*vocabulary->entries));
    vocabulary->bytes =
        grow(vocabulary->bytes, &vocabulary->byte_capacity, vocabulary->byte_count + length, 1);
    if (wanted > vocabulary->count) {
        memset(vocabulary->entries + vocabulary->count, 0,
               (wanted - vocabulary->count) * sizeof(*vocabulary->entries));
        vocabulary->count = wanted;
    }
    entry = &vocabulary->entries[id];
    if (entry->kind != VOCABULARY_ABSENT)
        return error_set(err, "id %lld belongs to another token already", (long long)id);
    entry->kind = kind;
    entry->offset = vocabulary->byte_count;
    entry->length = (uint32_t)length;
    if (length > 0)
        memcpy(vocabulary->bytes + vocabulary->byte_count, text, length);
    vocabulary->byte_count += length;
    return 0;
}

int64_t vocabulary_find(const struct vocabulary *vocabulary, const char *text)
{
    for (size_t id = vocabulary->count; id-- > 0;) {
        size_t length;
        const uint8_t *here = vocabulary_text(vocabulary, id, &length);

        if (vocabulary->entries[id].kind != VOCABULARY_ABSENT && length == strlen(text) &&
            memcmp(here, text, length) == 0)
            return (int64_t)id;
    }
    return -1;
}
