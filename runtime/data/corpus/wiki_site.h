/* SPDX-License-Identifier: Apache-2.0 */
/* The <siteinfo> at the start of a MediaWiki dump, which describes the wiki. */
#ifndef MEGATRON_CORPUS_WIKI_SITE_H
#define MEGATRON_CORPUS_WIKI_SITE_H

#include "lib/error.h"
#include "wiki_buffer.h"

struct wiki_site;

/* Namespaces that links depend on. Others have their own numbers. */
enum { WIKI_NS_NONE = -1000, WIKI_NS_MAIN = 0, WIKI_NS_FILE = 6, WIKI_NS_CATEGORY = 14 };

/* Parse the 'size' bytes before the first <page>. Missing values are those of the English
 * Wikipedia. Caller must destroy. */
struct wiki_site *wiki_site_parse(const char *head, size_t size);
void wiki_site_destroy(struct wiki_site *site);

/* What is missing, as a static string, or NULL. */
const char *wiki_site_flaw(const struct wiki_site *site);
/* "Wikipedia"; "https://en.wikipedia.org/wiki/Main_Page", without its last part. */
const char *wiki_site_name(const struct wiki_site *site);
const char *wiki_site_base(const struct wiki_site *site);

/* Look up the namespace named by 'prefix' (the text before a colon), in the wiki's own language or
 * in English. Returns its number or WIKI_NS_NONE. 'site' may be NULL: English. */
int wiki_site_namespace(const struct wiki_site *site, struct wiki_span prefix);

/* The sites of the files of a corpus, by file index. Thread-safe. */
struct wiki_sites;
struct wiki_sites *wiki_sites_create(size_t files);
void wiki_sites_destroy(struct wiki_sites *sites);
/* The site of a file, or NULL if it is not known yet. */
const struct wiki_site *wiki_sites_get(struct wiki_sites *sites, size_t file);
/* Store the site of a file. If another thread was first, destroys 'site'. Returns the stored
 * site. */
const struct wiki_site *wiki_sites_put(struct wiki_sites *sites, size_t file,
                                       struct wiki_site *site);

#endif
