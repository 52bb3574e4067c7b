/* SPDX-License-Identifier: Apache-2.0 */
/* Masks of Hugging Face's DataCollatorForLanguageModeling, number for number: those that it gives
 * for one sample after torch.manual_seed(seed), or as a new collator with this seed. */
#ifndef MEGATRON_MASKED_COLLATOR_H
#define MEGATRON_MASKED_COLLATOR_H

#include "masked_tokens.h"

/* Mask the 'count' tokens in place, as masking_apply. With 'begins', whole words. Returns the
 * number of predicted tokens. */
int64_t collator_apply(const struct mask_config *config, uint32_t seed, int32_t *tokens,
                       int64_t count, int32_t *labels);

#endif
