/* SPDX-License-Identifier: Apache-2.0 */
/* The tools of `megatron data`: each has a configuration and a function that all ranks call.
 *
 *     struct filter_config config = {.base = {.command = "filter", .inputs = inputs,
 *                                             .input_count = 1, .key = "text",
 *                                             .output = "clean.jsonl", ...}};
 *
 *     rules_default(&config.rules);
 *     config.base.outputs[0] = config.base.output;
 *     if (filter_run(&config, &err) < 0)
 *         report(&err); */
#ifndef MEGATRON_CURATE_TOOLS_H
#define MEGATRON_CURATE_TOOLS_H

#include "decontaminate.h"
#include "dedup.h"
#include "filter.h"
#include "lines.h"
#include "merge.h"
#include "mix.h"
#include "ngrams.h"
#include "pages.h"
#include "stats.h"

#endif
