/* SPDX-License-Identifier: Apache-2.0 */
/* The body of engine_plain.c, engine_neon.c and engine_avx2.c, which define ENGINE, its name. */
#include "bpe_merge.h"
#include "normalize_block.h"
#include "split_simd.h"

const struct engine ENGINE = {
    .name = SIMD_NAME,
    .gpt2 = split_gpt2,
    .cuts = split_cuts,
    .llama3 = split_llama3_fast,
    .cased = split_cased_fast,
    .copy = copy_blocks,
    .small = encode_small,
    .merge_short = merge_short,
    .merge_bytes = merge_bytes,
};
