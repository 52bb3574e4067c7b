/* SPDX-License-Identifier: Apache-2.0 */
#define TOKENIZER_PLAIN
#define NORMALIZE_ENGINE normalize_plain
#include "normalize_block.h"
