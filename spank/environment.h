/* The contract, as variables of the task. */
#ifndef MEGATRON_ENVIRONMENT_H
#define MEGATRON_ENVIRONMENT_H

#include "facts.h"
#include "settings.h"
#include "share.h"

enum { ENVIRONMENT_LIST = 1024 };

/* Set the variables of the task. What the user exported stays; the names of it are put into 'left',
 * separated by commas, whose value differs from what would have been set. Returns 0 or -1. */
int environment_export(spank_t spank, const struct facts *facts, const struct settings *settings,
                       const struct config *config, const struct share *share,
                       char left[ENVIRONMENT_LIST], struct error *err);

#endif
