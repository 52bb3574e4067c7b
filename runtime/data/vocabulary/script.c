/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "script.h"

#include "script_table.h"

uint8_t script_of(uint32_t point)
{
    return script_blocks[script_index[point >> 7]][point & 127];
}
