/* SPDX-License-Identifier: Apache-2.0 */
/* E-mail addresses and public IPv4 addresses in a text -> something that belongs to nobody. */
#ifndef MEGATRON_CURATE_PII_H
#define MEGATRON_CURATE_PII_H

#include "lines.h"

struct pii {
    const char *email, *address; /* what takes their place; NULL: they stay */
};

struct pii_counts {
    int64_t emails, addresses;
};

/* Put 'text' into 'out', which is emptied first, with addresses replaced. Returns how many were; 0:
 * 'out' holds nothing and the text stays as it is. */
int64_t pii_mask(const struct pii *pii, const char *text, size_t size, struct line_buffer *out,
                 struct pii_counts *counts);

#endif
