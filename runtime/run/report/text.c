/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

/* Length of the UTF-8 character at 's', 0 if the bytes are not one (or a C1 control, a surrogate or
 * a character that HTML does not allow). */
static size_t character(const unsigned char *s)
{
    size_t count = s[0] < 0x80                   ? 1
                   : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                   : (s[0] & 0xf0) == 0xe0       ? 3
                   : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                                 : 0;

    for (size_t i = 1; i < count; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if (count == 1 && ((s[0] < 0x20 && s[0] != '\t' && s[0] != '\n') || s[0] == 0x7f))
        return 0;
    if (count == 2 && s[0] == 0xc2 && s[1] < 0xa0)
        return 0;
    if (count == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
                       (s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe)))
        return 0;
    return count == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90)) ? 0
                                                                                           : count;
}

void text_escape(const char *words, FILE *html)
{
    const unsigned char *s = (const unsigned char *)words;

    while (*s) {
        size_t count = character(s);

        if (count == 0)
            fputs("\xef\xbf\xbd", html);
        else if (*s == '<')
            fputs("&lt;", html);
        else if (*s == '>')
            fputs("&gt;", html);
        else if (*s == '&')
            fputs("&amp;", html);
        else if (*s == '"')
            fputs("&quot;", html);
        else if (*s == '\'')
            fputs("&#39;", html);
        else
            fwrite(s, 1, count, html);
        s += count ? count : 1;
    }
}
