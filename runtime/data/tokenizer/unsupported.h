/* SPDX-License-Identifier: Apache-2.0 */
/* The advice for tokenizers that are valid but not supported. */
#ifndef MEGATRON_UNSUPPORTED_H
#define MEGATRON_UNSUPPORTED_H

/* The end of the message. */
#define OTHER_TOKENIZER \
    "; choose another tokenizer (--tokenizer-type), or use a newer release of megatron"

#endif
