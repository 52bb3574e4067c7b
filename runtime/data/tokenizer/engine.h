/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops, which are compiled for several processors: finding words in a text, copying what
 * the normalizer leaves as it is, and merging the symbols of short words. */
#ifndef MEGATRON_TOKENIZER_ENGINE_H
#define MEGATRON_TOKENIZER_ENGINE_H

#include <stddef.h>
#include <stdint.h>

struct bpe;
struct normalizer;
struct splitter;

struct engine {
    const char *name;

    /* split.h: each takes a chunk of 'size' bytes at splitter->base. Those with a result return how
     * many bytes they have split, or 0 if the chunk needs the pattern. */
    void (*gpt2)(struct splitter *splitter, size_t size);
    void (*cuts)(struct splitter *splitter, size_t size);
    size_t (*llama3)(struct splitter *splitter, size_t size);
    size_t (*cased)(struct splitter *splitter, size_t size);

    /* normalize.h: copy characters that stay and white space, at most 'room' bytes, while more than
     * 64 bytes follow. '*after': whether the text follows a space, then whether it ends with one.
     * Returns how many bytes were read; '*made' of them were written. */
    size_t (*copy)(const struct normalizer *normalizer, const uint8_t *text, size_t length,
                   uint8_t *out, size_t room, unsigned *after, size_t *made);

    /* bpe.h: encode a word of 1 to BPE_SMALL bytes, in a buffer of 16 bytes that is padded with
     * zeros; 'ids' has room for 16. Returns 0 if the word needs bpe_encode. */
    size_t (*small)(const struct bpe *bpe, const uint8_t *word, size_t length, uint32_t *ids);

    /* Merge 1 to BPE_SHORT symbols, or the symbols of a word's bytes, in place. Return how many
     * remain. */
    size_t (*merge_short)(const struct bpe *bpe, uint32_t *symbols, size_t count);
    size_t (*merge_bytes)(const struct bpe *bpe, const uint8_t *word, uint32_t *symbols,
                          size_t count);
};
extern const struct engine engine_plain, engine_neon, engine_avx2;

/* The one for this processor. */
const struct engine *engine_best(void);

#endif
