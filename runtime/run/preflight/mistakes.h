/* SPDX-License-Identifier: Apache-2.0 */
/* Mistakes in the command line of a test, which must not be held against the nodes: they look the
 * same on all nodes, whereas a fault is one node's. */
#ifndef MEGATRON_MISTAKES_H
#define MEGATRON_MISTAKES_H

#include "facts.h"
#include "preflight.h"

/* Can nothing be tested as the options ask for, on any node? 'facts' are those of 'size' ranks,
 * zero for ranks that are not alive; 'machine' is the nodes' kind, and 'trouble' why the first rank
 * cannot open its device, or "". Returns 0, or -1 with code ERROR_USAGE. */
int mistakes_check(const struct preflight_options *options, const struct facts *facts, int size,
                   const struct machine *machine, const char *trouble, struct error *err);

/* Was the kind of the nodes named that they do not look like: their product name is another, and
 * they have no GPUs at all, though nodes of this kind do? Either the name is wrong, or all GPUs of
 * the node are lost. */
int mistakes_doubt_kind(const struct preflight_options *options, const struct facts *facts,
                        int size, const struct machine *machine);

#endif
