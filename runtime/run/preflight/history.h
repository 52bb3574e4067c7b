/* SPDX-License-Identifier: Apache-2.0 */
/* A file that remembers which nodes failed and when: JSON lines {"time", "host", "job", "checks"}.
 * A node that fails again and again is faulty even if each fault disappears. */
#ifndef MEGATRON_HISTORY_H
#define MEGATRON_HISTORY_H

#include "findings.h"

/* Remember the failed nodes of 'findings', but not for verdicts in doubt, at time 'now' (seconds
 * since 1970), and add a verdict "history" for each that failed before within a week. Lines that
 * are not understood are kept; those older than HISTORY_DAYS are dropped. */
enum { HISTORY_DAYS = 60, HISTORY_WEEK = 7 };
int history_update(const char *path, struct findings *findings, double now, const char *job,
                   struct error *err);

#endif
