/* SPDX-License-Identifier: Apache-2.0 */
/* Extracts the texts of given keys from a line of JSON.
 *
 *     struct jsonl *jsonl = jsonl_create(&key, 1, &err);
 *
 *     if (jsonl_parse(jsonl, line, size) == FAULT_NONE)
 *         texts = jsonl_texts(jsonl, 0, &count);
 *     jsonl_destroy(jsonl);
 *
 * Reads what Python's json module reads: NaN, Infinity and numbers of any length are accepted, and
 * of equal keys the last one counts. The whole line is validated, not only up to the keys. */
#ifndef MEGATRON_CORPUS_JSONL_H
#define MEGATRON_CORPUS_JSONL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/error.h"

/* Faults of a document, in the order of the final summary. */
enum document_fault {
    FAULT_NONE,
    FAULT_JSON,      /* not JSON, or more than one value */
    FAULT_UTF8,      /* not UTF-8 */
    FAULT_SURROGATE, /* an unpaired surrogate in a string */
    FAULT_DEPTH,     /* nested deeper than JSONL_DEPTH; or a page nested too deeply */
    FAULT_OBJECT,    /* JSON, but not an object */
    FAULT_KEY,       /* a wanted key is missing */
    FAULT_TYPE,      /* the value of a wanted key is neither a string nor a list of strings */
    FAULT_LENGTH,    /* longer than allowed (not found here) */
    FAULT_IDS,       /* not token ids, for a NullTokenizer (not found here) */
    FAULT_XML,       /* the XML of a page of a MediaWiki dump is invalid (not found here) */
    FAULT_CUT,       /* a page is not closed (not found here) */
    FAULT_LOOP,      /* a template includes itself (not found here) */
    /* Not faults, from here on: pages that the options exclude. */
    DOCUMENT_REDIRECT,
    DOCUMENT_NAMESPACE,
    DOCUMENT_MODEL, /* the content is not wikitext */
    DOCUMENT_DISAMBIGUATION,
    DOCUMENT_SHORT,
    /* From here on the document is kept: a page with unclosed markup. */
    MARKUP_COMMENT,
    MARKUP_TAG,
    MARKUP_TABLE,
    MARKUP_TEMPLATE,
    MARKUP_LINK,
    FAULT_COUNT,
    FAULT_BROKEN_END = DOCUMENT_REDIRECT,
    FAULT_LEFT_OUT_END = MARKUP_COMMENT
};

/* A description for the user, such as "not valid JSON". */
const char *document_fault_text(enum document_fault fault);

enum { JSONL_DEPTH = 512, JSONL_PADDING = 64 };

struct jsonl_text {
    const char *data;
    size_t size;
    const char *raw; /* the string as it appears in the line, with its quotes */
    size_t raw_size;
};

struct jsonl;

/* Look for 'count' keys. A key `a.b` is the member of that name, or else member b of member a. Use
 * one parser per thread. Returns NULL if out of memory or without the JSON library. */
struct jsonl *jsonl_create(const char *const *keys, size_t count, struct error *err);
void jsonl_destroy(struct jsonl *jsonl);

/* Parse the line at 'data'. JSONL_PADDING bytes after it must be readable. The texts are valid
 * until the next call. */
enum document_fault jsonl_parse(struct jsonl *jsonl, const char *data, size_t size);

/* The texts under key number 'key' of the last line: one for a string, any number for a list. */
const struct jsonl_text *jsonl_texts(const struct jsonl *jsonl, size_t key, size_t *count);

/* Free the memory for lines of more than 1 MiB. Invalidates the texts. */
void jsonl_trim(struct jsonl *jsonl);

/* The key that a FAULT_KEY or FAULT_TYPE concerns. */
size_t jsonl_fault_key(const struct jsonl *jsonl);

/* The member names of the last line, for a message: "id, meta, text". */
void jsonl_names(struct jsonl *jsonl, const char *data, size_t size, char *buffer, size_t room);

#ifdef __cplusplus
}
#endif
#endif
