/* SPDX-License-Identifier: Apache-2.0 */
/* The options that set the layout of ranks, for errors of lib/layout.h. */
#ifndef MEGATRON_LAYOUT_OPTIONS_H
#define MEGATRON_LAYOUT_OPTIONS_H

#include "lib/layout.h"

static const struct layout_names layout_options = {"--tensor-model-parallel-size",
                                                   "--pipeline-model-parallel-size",
                                                   "--context-parallel-size"};

#endif
