/* SPDX-License-Identifier: Apache-2.0 */
/* Options that have no effect together with the others that were given. */
#ifndef MEGATRON_EFFECTS_H
#define MEGATRON_EFFECTS_H

#include "arguments.h"

/* Warn about each such option. After arguments_derive. */
void effects_check(const struct arguments *arguments, const struct options_result *given);

/* The options, separated by '|', of which 'option' needs one; NULL: none. For files that contain
 * all options. */
const char *effects_needs(const char *option);

#endif
