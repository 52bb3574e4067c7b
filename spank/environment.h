/* SPDX-License-Identifier: Apache-2.0 */
/* The contract, as environment variables of the task. */
#ifndef MEGATRON_ENVIRONMENT_H
#define MEGATRON_ENVIRONMENT_H

#include "facts.h"
#include "settings.h"
#include "share.h"

enum { ENVIRONMENT_LIST = 1024 };

/* Set the variables of the task. Values that the user exported are kept; 'left' gets the
 * comma-separated names of those that differ from what would have been set. Returns 0 or -1. */
int environment_export(spank_t spank, const struct facts *facts, const struct settings *settings,
                       const struct config *config, const struct share *share,
                       char left[ENVIRONMENT_LIST], struct error *err);

#endif
