/* Within split*.c. */
#ifndef MEGATRON_SPLIT_RULES_H
#define MEGATRON_SPLIT_RULES_H

#include "split.h"

/* One chunk of 'size' bytes from splitter->base on. Returns how many bytes it went: its last word
 * may be longer. */
size_t split_llama3(struct splitter *splitter, size_t size);

#endif
