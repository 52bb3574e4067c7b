/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "pii.h"

#include <stdbool.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alphanumeric(char c)
{
    return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

static bool is_local(char c)
{
    return is_alphanumeric(c) || (c != '\0' && strchr("!#$%&'*+/=?^_`{|}~-", c) != NULL);
}

/* Word characters, as for \b in regular expressions. */
static bool is_word(char c)
{
    return is_alphanumeric(c) || c == '_' || (unsigned char)c >= 0x80;
}

/* Find the start of the address whose @ is at 'at', not before 'from'. Returns 'at' if there is no
 * address. */
static size_t email_begin(const char *text, size_t from, size_t at)
{
    size_t begin = at;

    while (begin > from && (is_local(text[begin - 1]) || (text[begin - 1] == '.' && begin < at &&
                                                          text[begin] != '.' && begin - 1 > from)))
        begin--;
    while (begin < at) {
        int before = begin > 0 && is_word(text[begin - 1]);

        if (text[begin] != '.' && before != is_word(text[begin]))
            break;
        begin++;
    }
    return at > from && text[at - 1] != '.' ? begin : at;
}

/* Find its end. Returns 0 if no domain follows the @. */
static size_t email_end(const char *text, size_t size, size_t at)
{
    size_t label = at + 1, end = 0;
    int labels = 0;

    for (;;) {
        size_t next = label;

        while (next < size && (is_alphanumeric(text[next]) || (text[next] == '-' && next > label)))
            next++;
        while (next > label && text[next - 1] == '-')
            next--;
        if (next == label)
            break;
        labels++;
        end = next;
        if (next >= size || text[next] != '.')
            break;
        label = next + 1;
    }
    return labels > 1 ? end : 0;
}

struct network {
    uint32_t address, mask;
};

static bool is_public(uint32_t address)
{
    static const struct network reserved[] = {
        {0x00000000, 0xFF000000}, {0x0A000000, 0xFF000000}, {0x64400000, 0xFFC00000},
        {0x7F000000, 0xFF000000}, {0xA9FE0000, 0xFFFF0000}, {0xAC100000, 0xFFF00000},
        {0xC0000000, 0xFFFFFF00}, {0xC0000200, 0xFFFFFF00}, {0xC0A80000, 0xFFFF0000},
        {0xC6120000, 0xFFFE0000}, {0xC6336400, 0xFFFFFF00}, {0xCB007100, 0xFFFFFF00},
        {0xE0000000, 0xE0000000}};

    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        if ((address & reserved[i].mask) == reserved[i].address)
            return false;
    return true;
}

/* The length of the public IPv4 address at 'at', or 0. Five numbers, as in versions, are not an
 * address. */
static size_t address_length(const char *text, size_t size, size_t at)
{
    uint32_t address = 0;
    size_t i = at;

    if (at > 0 &&
        (is_digit(text[at - 1]) || (text[at - 1] == '.' && at > 1 && is_digit(text[at - 2]))))
        return 0;
    for (int part = 0; part < 4; part++) {
        uint32_t value = 0;
        size_t begin;

        if (part > 0 && (i >= size || text[i++] != '.'))
            return 0;
        begin = i;
        while (i < size && is_digit(text[i]) && i - begin < 4)
            value = value * 10 + (uint32_t)(text[i++] - '0');
        if (i == begin || value > 255 || (i - begin > 1 && text[begin] == '0'))
            return 0;
        address = address << 8 | value;
    }
    if (i < size &&
        (is_digit(text[i]) || (text[i] == '.' && i + 1 < size && is_digit(text[i + 1]))))
        return 0;
    return is_public(address) ? i - at : 0;
}

static size_t find_email(const struct pii *pii, const char *text, size_t size, size_t from,
                         size_t *end)
{
    size_t at = from;

    while (pii->email && at < size) {
        const char *sign = memchr(text + at, '@', size - at);
        size_t begin;

        if (!sign)
            break;
        at = (size_t)(sign - text);
        *end = email_end(text, size, at);
        begin = *end > 0 ? email_begin(text, from, at) : at;
        if (begin < at)
            return begin;
        at++;
    }
    return size;
}

static size_t find_address(const struct pii *pii, const char *text, size_t size, size_t from,
                           size_t *end)
{
    size_t at = from;

    /* Search for dots: an address has a digit before each. */
    while (pii->address && at < size) {
        const char *dot = memchr(text + at, '.', size - at);
        size_t begin, length;

        if (!dot)
            break;
        begin = at = (size_t)(dot - text);
        while (begin > from && is_digit(text[begin - 1]) && at - begin < 4)
            begin--;
        length = begin < at ? address_length(text, size, begin) : 0;
        if (length > 0) {
            *end = begin + length;
            return begin;
        }
        at++;
    }
    return size;
}

int64_t pii_mask(const struct pii *pii, const char *text, size_t size, struct line_buffer *out,
                 struct pii_counts *counts)
{
    size_t done = 0, email_at = 0, email_end_at = 0, address_at = 0, address_end_at = 0;
    int64_t replaced = 0;

    out->size = 0;
    email_at = find_email(pii, text, size, 0, &email_end_at);
    address_at = find_address(pii, text, size, 0, &address_end_at);
    while (email_at < size || address_at < size) {
        int is_email = email_at <= address_at;
        size_t begin = is_email ? email_at : address_at;
        size_t end = is_email ? email_end_at : address_end_at;

        line_put(out, text + done, begin - done);
        line_put_word(out, is_email ? pii->email : pii->address);
        counts->emails += is_email;
        counts->addresses += !is_email;
        replaced++;
        done = end;
        if (email_at < done)
            email_at = find_email(pii, text, size, done, &email_end_at);
        if (address_at < done)
            address_at = find_address(pii, text, size, done, &address_end_at);
    }
    if (replaced > 0)
        line_put(out, text + done, size - done);
    return replaced;
}
