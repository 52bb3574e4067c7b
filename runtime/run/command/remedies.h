/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEGATRON_REMEDIES_H
#define MEGATRON_REMEDIES_H

#include "base/core/remedy.h"

/* Which options help against what the layers below report; for remedy_set_table(). */
extern const char *const command_remedies[REMEDY_COUNT];

#endif
