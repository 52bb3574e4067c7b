/* SPDX-License-Identifier: Apache-2.0 */
/* E-mail and IP addresses are masked. */
#include "config.h"
#include "data/curate/pii.h"
#include "tap.h"

static void test_pii(void)
{
    static const struct {
        const char *text, *masked;
    } rows[] = {
        {"nothing here", NULL},
        {"write to jane.doe+x@mail.example.co.uk.", "write to E."},
        {"<a@b.org>,c@d.net", "<E>,E"},
        {"a@b", NULL},
        {"@user @b.org", NULL},
        {"a..b@c.org", "a..E"},
        {".a@c.org", ".E"},
        {"x@-c.org", NULL},
        {"x@c-.org", NULL},
        {"x@c.org-", "E-"},
        {"8.8.8.8", "I"},
        {"at 8.8.8.8, or 8.8.4.4.", "at I, or I."},
        {"10.1.2.3 127.0.0.1 192.168.1.1 172.16.0.1 169.254.0.1 0.0.0.0 224.0.0.1 255.255.255.255",
         NULL},
        {"172.32.0.1", "I"},
        {"1.2.3.4.5", NULL},
        {"version 1.2.3", NULL},
        {"256.1.1.1", NULL},
        {"08.8.8.8", NULL},
        {"1.2.3.4567", NULL},
        {"user@8.8.8.8", "E"},
        {"\xC3\xA9t\xC3\xA9@c.org", NULL},
    };
    struct pii pii = {"E", "I"}, none = {NULL, NULL};
    struct pii_counts counts = {0, 0};
    struct line_buffer out = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t found = pii_mask(&pii, rows[i].text, strlen(rows[i].text), &out, &counts);

        line_put(&out, "", 1);
        is(found ? out.data : "as it was", rows[i].masked ? rows[i].masked : "as it was",
           rows[i].text);
    }
    is_int(pii_mask(&none, "a@b.org 8.8.8.8", 15, &out, &counts), 0, "only what is asked for");
    line_buffer_clear(&out);
}

int main(void)
{
    test_pii();
    return done_testing();
}
