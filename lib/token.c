/* SPDX-License-Identifier: Apache-2.0 */
#include "token.h"

#include <stddef.h>
#include <sys/random.h>

int token_create(char text[TOKEN_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[(TOKEN_TEXT - 1) / 2];

    text[0] = '\0';
    /* Up to 256 bytes are never cut short. */
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return -1;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        text[2 * i] = digits[bytes[i] / 16];
        text[2 * i + 1] = digits[bytes[i] % 16];
    }
    text[TOKEN_TEXT - 1] = '\0';
    return 0;
}
