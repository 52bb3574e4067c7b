/* SPDX-License-Identifier: Apache-2.0 */
/* The page's style sheet and its script. */
#ifndef MEGATRON_REPORT_SCRIPT_H
#define MEGATRON_REPORT_SCRIPT_H

extern const char page_style[];
extern const char page_script[];

#endif
