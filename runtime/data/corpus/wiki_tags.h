/* SPDX-License-Identifier: Apache-2.0 */
/* Private to corpus/: the tags of wikitext. */
#ifndef MEGATRON_CORPUS_WIKI_TAGS_H
#define MEGATRON_CORPUS_WIKI_TAGS_H

#include "wiki_buffer.h"

/* What wiki_inline does with a tag. */
enum clean_rule {
    CLEAN_KEEP,
    CLEAN_STRIP, /* the tag is removed */
    CLEAN_DROP,  /* removed with its content */
    CLEAN_LINE,  /* ends the line */
    CLEAN_ITEM,  /* begins a list item */
    CLEAN_RAW,   /* its content is literal text */
    CLEAN_MATH,
    CLEAN_RUBY, /* its content is put in parentheses */
    CLEAN_SUB,  /* its content may become superscript or subscript characters */
    CLEAN_SUP,
};

/* What wiki_extractor_tags does with it, in bits. */
enum extract_rule {
    EXTRACT_KEEP = 0,
    EXTRACT_DISCARD = 1, /* drop with the content */
    EXTRACT_STRIP = 2,   /* drop the tag only */
    EXTRACT_EMPTY = 4,   /* drop if it is <tag/> */
    EXTRACT_MATH = 8,
    EXTRACT_CODE = 16,
    EXTRACT_BLOCK = 32, /* ends the line */
    EXTRACT_BREAK = 64, /* becomes a space, with or without a slash */
};

/* How wiki_unclosed matches it with its end tag. Tags that only affect appearance (<b>, <div>,
 * <small>) are not matched: their text is the same whether they are closed or not. */
enum close_rule {
    CLOSE_ANY,
    CLOSE_RAW,   /* its content is not markup */
    CLOSE_FRAME, /* its content is markup, matched separately */
    CLOSE_TABLE,
    CLOSE_REST, /* like CLOSE_RAW, but if unclosed it extends to the end of the page */
};

/* Where the braces in its content are not calls: in pages; in transcluded templates. In bits. */
enum opaque_rule { OPAQUE_PAGE = 1, OPAQUE_TEMPLATE = 2 };

enum { WIKI_TAGS = 95 };
extern const struct wiki_tag_rules {
    const char *name;
    enum clean_rule clean;
    int extract; /* enum extract_rule */
    enum close_rule close;
    int opaque; /* enum opaque_rule */
} wiki_tags[WIKI_TAGS + 1];

/* The index of a tag in wiki_tags, in any case; WIKI_TAGS if it is not listed. */
size_t wiki_tag_number(struct wiki_span name);

/* A tag: <name ...>, </name>, <name .../>. */
struct wiki_tag {
    struct wiki_span name;
    size_t length; /* including the brackets; 0: not a tag */
    int closing, empty;
    int endless; /* not a tag, because no '>' follows */
};
struct wiki_tag wiki_tag(const char *at, const char *end);

/* Find the position after the next end tag of 'name', or NULL. 'spaces': allow white space before
 * its bracket. */
const char *wiki_end_tag(const char *at, const char *end, const char *name, bool spaces);

/* The end of the comment or opaque element at 'at', or NULL if there is none. 'missing', WIKI_TAGS
 * zeros at first: those without an end tag in the rest, so that each is searched for once. */
const char *wiki_skip_opaque(const char *at, const char *end, enum opaque_rule where,
                             unsigned char *missing);

#endif
