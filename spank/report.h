/* SPDX-License-Identifier: Apache-2.0 */
/* Human-readable reports: the output of --megatron-check and --megatron-show. */
#ifndef MEGATRON_REPORT_H
#define MEGATRON_REPORT_H

#include <stdio.h>
#include "checks.h"
#include "settings.h"
#include "share.h"

/* Print what would run: layout, checks, environment. Returns the exit code: 0, or 1 if a check
 * failed. */
int report_check(FILE *stream, const char *version, const char *slurm, struct settings *settings,
                 const struct config *config, const struct counts *counts);

/* The last line of --megatron-check: 'rc' is report_check's; is the model known not to fit? */
void report_verdict(FILE *stream, int rc, bool too_large, struct settings *settings,
                    const struct counts *counts);

/* Format the block of a node: one line for the node and one for each task, to be written in one
 * call. Each line starts with the node's name, since Slurm may split long blocks. The caller frees
 * the text; NULL if out of memory. */
char *report_show(const struct share *share, const char *node, const char *version,
                  const char *slurm);

#endif
