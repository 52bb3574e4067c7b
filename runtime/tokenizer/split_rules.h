/* Within split*.c: one chunk of 'size' bytes from splitter->base on, by rule. split_llama3 returns
 * how many bytes it went: its last word may be longer. */
#ifndef MEGATRON_SPLIT_RULES_H
#define MEGATRON_SPLIT_RULES_H

#include "split.h"

void split_gpt2(struct splitter *splitter, size_t size);
size_t split_llama3(struct splitter *splitter, size_t size);

/* Write the places of the bits of 'starts' within 'size' bytes into splitter->ends. */
void split_emit(struct splitter *splitter, const uint64_t *starts, size_t size);

/* Masks for the blocks of the chunk and the one behind it; those of the byte before it are in
 * blocks[0], the first block of the chunk is blocks[1]. Behind the text all is white space. */
void split_classify(struct splitter *splitter, size_t size);

#endif
