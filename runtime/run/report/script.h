/* SPDX-License-Identifier: Apache-2.0 */
/* The page's style sheet and its script. */
#ifndef MEGATRON_REPORT_SCRIPT_H
#define MEGATRON_REPORT_SCRIPT_H

/* Base64 of the SHA-256 of page.js, for the page's content security policy: no other script runs.
 * t/report/report.t compares it, and prints the one of a changed script. */
#define PAGE_SCRIPT_HASH "MEUB70c1BH8mgL4C2dzP5Bm08ZnQEZ3cmeBwu1w50/0="

extern const char page_style[];
extern const char page_script[];

#endif
