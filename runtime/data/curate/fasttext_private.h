/* SPDX-License-Identifier: Apache-2.0 */
/* Private to fasttext*.c: a model in memory. */
#ifndef MEGATRON_CURATE_FASTTEXT_PRIVATE_H
#define MEGATRON_CURATE_FASTTEXT_PRIVATE_H

#include "fasttext.h"
#include "lib/file.h"

enum fasttext_loss { LOSS_HIERARCHICAL = 1, LOSS_NEGATIVE = 2, LOSS_SOFTMAX = 3, LOSS_OVA = 4 };

/* A product quantizer: a vector is cut into parts, and each part is one of 256 centroids. */
struct quantizer {
    int32_t dimension, parts, part_size, last_size;
    const char *centroids; /* unaligned floats */
};

struct matrix {
    int64_t rows, columns;
    const char *data; /* unaligned floats; NULL: quantized */
    const uint8_t *codes;
    struct quantizer quantizer;
    const uint8_t *norm_codes; /* NULL: norms are not quantized separately */
    struct quantizer norms;
};

struct fasttext_entry {
    const char *text; /* null-terminated */
    uint32_t size;
    int64_t count;
};

/* A bucket of n-grams that pruning kept, and its row after those of the words. */
struct kept_ngram {
    int32_t from, to;
};

/* The first slot to probe for a bucket. */
static inline uint32_t kept_place(uint32_t bucket, uint32_t mask)
{
    return (bucket * 2654435769u >> 7) & mask;
}

/* The size of a hash table for up to 2^31 entries: a power of two, at most half full. */
static inline size_t fasttext_table_size(int64_t count)
{
    size_t size = 16;

    while (size < 2 * (size_t)count)
        size *= 2;
    return size;
}

/* An inner node of the hierarchical softmax tree. */
struct tree_node {
    int32_t left, right;
};

struct fasttext {
    struct file_bytes file;
    int32_t dimension, word_ngrams, loss, buckets, min_chars, max_chars;
    struct fasttext_entry *words;  /* in dictionary order */
    struct fasttext_entry *labels; /* texts without their prefix */
    int32_t word_count, label_count;
    int32_t *slots; /* hash table of words; -1: free */
    uint32_t slot_mask;
    int64_t pruned;          /* number of n-grams left after pruning; -1: not pruned */
    struct kept_ngram *kept; /* hash table of these; 'to' is -1 in a free slot */
    uint32_t kept_mask;
    struct matrix input, output;
    struct tree_node *tree; /* label_count - 1 nodes; the root is the last */
};

/* fastText's hash of words and n-grams. */
static inline uint32_t fasttext_hash(const char *text, size_t size)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < size; i++) {
        hash ^= (uint32_t)(int8_t)text[i];
        hash *= 16777619u;
    }
    return hash;
}

#endif
