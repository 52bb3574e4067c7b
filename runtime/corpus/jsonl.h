/* One line of JSON -> the texts under the wanted keys.
 *
 * Reads what Python's json module reads: NaN, Infinity and numbers of any length are fine, of equal
 * keys the last one counts. The whole line is checked, not only the way to the keys. */
#ifndef MEGATRON_CORPUS_JSONL_H
#define MEGATRON_CORPUS_JSONL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "error.h"

/* What can be wrong with a line. The order is that of the reasons in the closing summary. */
enum document_fault {
    FAULT_NONE,
    FAULT_JSON,      /* not JSON, or more than one value */
    FAULT_UTF8,      /* not UTF-8 */
    FAULT_SURROGATE, /* half of a surrogate pair in a text */
    FAULT_DEPTH,     /* nested deeper than JSONL_DEPTH */
    FAULT_OBJECT,    /* JSON, but no object */
    FAULT_KEY,       /* a wanted key is missing */
    FAULT_TYPE,      /* under a wanted key there is neither a string nor a list of strings */
    FAULT_LENGTH,    /* longer than allowed (not found here) */
    FAULT_IDS,       /* no text for a tokenizer that takes ids (not found here) */
    FAULT_XML,       /* a page of a dump whose elements are not what they should be */
    FAULT_CUT,       /* a page that is not closed */
    /* From here on nothing is wrong: pages that the options leave out. */
    DOCUMENT_REDIRECT,
    DOCUMENT_NAMESPACE,
    DOCUMENT_MODEL, /* its content is not wikitext */
    DOCUMENT_DISAMBIGUATION,
    DOCUMENT_SHORT,
    FAULT_COUNT,
    FAULT_BROKEN_END = DOCUMENT_REDIRECT
};

/* For the user: "not valid JSON". */
const char *document_fault_text(enum document_fault fault);

enum { JSONL_DEPTH = 512, JSONL_PADDING = 64 };

struct jsonl_text {
    const char *data;
    size_t size;
};

struct jsonl;

/* Look for 'count' keys. A key `a.b` is the member of that name, or else member b of member a. One
 * parser serves one thread. Returns NULL where memory or the JSON library is missing. */
struct jsonl *jsonl_create(const char *const *keys, size_t count, struct error *err);
void jsonl_destroy(struct jsonl *jsonl);

/* Parse the line at 'data'; JSONL_PADDING bytes behind it must be readable. The texts stay valid
 * until the next call. */
enum document_fault jsonl_parse(struct jsonl *jsonl, const char *data, size_t size);

/* The texts under key number 'key' of the line parsed last: one for a string, any number (also
 * none) for a list. */
const struct jsonl_text *jsonl_texts(const struct jsonl *jsonl, size_t key, size_t *count);

/* Give back the memory that a line of more than 1 MiB took. The texts are gone then. */
void jsonl_trim(struct jsonl *jsonl);

/* Which key was missing or no text, after FAULT_KEY or FAULT_TYPE. */
size_t jsonl_fault_key(const struct jsonl *jsonl);

/* The names of the members of the line parsed last, for a message: "id, meta, text". */
void jsonl_names(struct jsonl *jsonl, const char *data, size_t size, char *buffer, size_t room);

#ifdef __cplusplus
}
#endif
#endif
