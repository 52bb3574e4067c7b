/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: wikitext as the page of a dump. */
#ifndef MEGATRON_T_WIKI_TEXT_H
#define MEGATRON_T_WIKI_TEXT_H

#include "data/corpus/wikitext.h"

#include <stdlib.h>
#include <string.h>

/* A page called T in namespace 0 that contains 'size' bytes of wikitext. The caller frees it. */
static inline char *wiki_text_page(const char *wikitext, size_t size)
{
    static const char head[] = "<page><title>T</title><ns>0</ns><revision><text>";
    static const char tail[] = "</text></revision></page>";
    char *page = malloc(sizeof(head) + size * 5 + sizeof(tail)), *to = page;

    to = stpcpy(to, head);
    for (size_t i = 0; i < size; i++) {
        if (wikitext[i] == '&' || wikitext[i] == '<')
            to = stpcpy(to, wikitext[i] == '&' ? "&amp;" : "&lt;");
        else
            *to++ = wikitext[i];
    }
    stpcpy(to, tail);
    return page;
}

#endif
