/* SPDX-License-Identifier: Apache-2.0 */
/* The <siteinfo> at the start of a MediaWiki dump, which describes the wiki. */
#ifndef MEGATRON_CORPUS_WIKI_SITE_H
#define MEGATRON_CORPUS_WIKI_SITE_H

#include "lib/error.h"
#include "wiki_buffer.h"

/* Namespaces that links depend on. Others have their own numbers. */
enum {
    WIKI_NS_NONE = -1000,
    WIKI_NS_FILE = 6,
    WIKI_NS_TEMPLATE = 10,
    WIKI_NS_CATEGORY = 14,
};

struct wiki_site {
    char name[256];   /* "Wikipedia" */
    char base[256];   /* "https://en.wikipedia.org/wiki/Main_Page", without its last part */
    const char *flaw; /* what is missing, or NULL */
    struct {
        int key;
        char name[96];
    } names[128]; /* of namespaces */
    size_t count;
};

/* Parse the 'size' bytes before the first <page>. Missing values are those of the English
 * Wikipedia. Caller must free. */
struct wiki_site *wiki_site_parse(const char *head, size_t size);

/* Look up the namespace named by 'prefix' (the text before a colon), in the wiki's own language or
 * in English. Returns its number or WIKI_NS_NONE. 'site' may be NULL: English. */
int wiki_site_namespace(const struct wiki_site *site, struct wiki_span prefix);

#endif
