/* SPDX-License-Identifier: Apache-2.0 */
/* Mask e-mail addresses and public IPv4 addresses, for example by addresses that are reserved
 * (example.com, RFC 5737). */
#ifndef MEGATRON_CURATE_PII_H
#define MEGATRON_CURATE_PII_H

#include "lines.h"

struct pii {
    const char *email, *address; /* replacements; NULL: do not mask */
};

struct pii_counts {
    int64_t emails, addresses;
};

/* Write 'text' with the addresses replaced to 'out', which is cleared first. Returns the number of
 * replacements; if 0, 'out' is empty. */
int64_t pii_mask(const struct pii *pii, const char *text, size_t size, struct line_buffer *out,
                 struct pii_counts *counts);

#endif
