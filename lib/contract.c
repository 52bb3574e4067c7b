/* SPDX-License-Identifier: Apache-2.0 */
#include "contract.h"

static const char *const names[CONTRACT_COUNT] = {
#define X(suffix, form, meaning) "MEGATRON_" #suffix,
    CONTRACT_VARIABLES(X)
#undef X
};

const char *contract_name(enum contract_variable variable)
{
    return names[variable];
}
