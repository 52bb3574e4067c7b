/* Text for people: what --megatron-check and --megatron-show print. */
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

/* The block of a node: a line for it and one for each task, to be written at once; each begins with
 * the node's name, since Slurm may cut long blocks. Returns a text to be freed, or NULL. */
char *report_show(const struct share *share, const char *node, const char *version,
                  const char *slurm);

#endif
