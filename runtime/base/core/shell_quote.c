/* SPDX-License-Identifier: Apache-2.0 */
#include "shell_quote.h"

#include <stdbool.h>
#include <string.h>

void shell_quote(const char *word, FILE *stream)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./,:=+@%";
    bool quoted = word[0] == '\0' || word[strspn(word, plain)] != '\0';

    if (quoted)
        fputc('\'', stream);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", stream);
        else
            fputc((unsigned char)*word < ' ' ? ' ' : *word, stream);
    if (quoted)
        fputc('\'', stream);
}
