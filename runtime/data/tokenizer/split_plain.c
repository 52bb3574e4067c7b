/* SPDX-License-Identifier: Apache-2.0 */
#define TOKENIZER_PLAIN
#define SPLIT_ENGINE split_plain
#include "split_simd.h"
