/* SPDX-License-Identifier: Apache-2.0 */
#include "base64.h"

static int base64_value(char digit)
{
    if (digit >= 'A' && digit <= 'Z')
        return digit - 'A';
    if (digit >= 'a' && digit <= 'z')
        return digit - 'a' + 26;
    if (digit >= '0' && digit <= '9')
        return digit - '0' + 52;
    return digit == '+' ? 62 : digit == '/' ? 63 : -1;
}

/* Decode 'length' characters into 'out' (room for as many bytes). Returns the number of bytes, or
 * SIZE_MAX if the text is not base64. */
size_t base64_decode(const char *text, size_t length, uint8_t *out)
{
    uint32_t bits = 0;
    size_t made = 0, digits = length;

    if (length == 0 || length % 4 != 0)
        return SIZE_MAX;
    for (int i = 0; i < 2 && text[digits - 1] == '='; i++)
        digits--;
    for (size_t i = 0; i < digits; i++) {
        int value = base64_value(text[i]);

        if (value < 0)
            return SIZE_MAX;
        bits = bits << 6 | (uint32_t)value;
        if (i % 4 != 0)
            out[made++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return digits % 4 == 1 ? SIZE_MAX : made;
}
