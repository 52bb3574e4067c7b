/* SPDX-License-Identifier: Apache-2.0 */
#include "contract.h"

static const struct {
    const char *name, *form, *meaning;
} variables[CONTRACT_COUNT] = {
#define X(suffix, form, meaning) {"MEGATRON_" #suffix, form, meaning},
    CONTRACT_VARIABLES(X)
#undef X
};

const char *contract_name(enum contract_variable variable)
{
    return variables[variable].name;
}

const char *contract_form(enum contract_variable variable)
{
    return variables[variable].form;
}

const char *contract_meaning(enum contract_variable variable)
{
    return variables[variable].meaning;
}
