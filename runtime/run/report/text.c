/* SPDX-License-Identifier: Apache-2.0 */
#include "page_parts.h"

#include <string.h>

void text_escape(const char *words, FILE *html)
{
    for (const unsigned char *s = (const unsigned char *)words; *s; s++)
        if ((*s < 0x20 && *s != '\t' && *s != '\n') || *s == 0x7f)
            fputs("\xef\xbf\xbd", html);
        else if (strchr("<>&\"'", *s))
            fprintf(html, "&#%d;", *s);
        else
            fputc(*s, html);
}
