/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces jsonl.cpp in builds without simdjson. */
#include "jsonl.h"

struct jsonl *jsonl_create(const char *const *keys, size_t count, struct error *err)
{
    (void)keys, (void)count;
    error_set(err, "this build cannot read JSON; install libsimdjson-dev and build again");
    error_append(err, "; for plain text use --input-format lines, blank-lines, titles or files");
    return NULL;
}

void jsonl_destroy(struct jsonl *jsonl)
{
    (void)jsonl;
}

enum document_fault jsonl_parse(struct jsonl *jsonl, const char *data, size_t size)
{
    (void)jsonl, (void)data, (void)size;
    return FAULT_JSON;
}

void jsonl_trim(struct jsonl *jsonl)
{
    (void)jsonl;
}

const struct jsonl_text *jsonl_texts(const struct jsonl *jsonl, size_t key, size_t *count)
{
    (void)jsonl, (void)key;
    *count = 0;
    return NULL;
}

size_t jsonl_fault_key(const struct jsonl *jsonl)
{
    (void)jsonl;
    return 0;
}

void jsonl_names(struct jsonl *jsonl, const char *data, size_t size, char *buffer, size_t room)
{
    (void)jsonl, (void)data, (void)size, (void)room;
    buffer[0] = '\0';
}
