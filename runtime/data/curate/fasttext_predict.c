/* SPDX-License-Identifier: Apache-2.0 */
/* Prediction: the mean of the vectors of all words and n-grams, then a linear classifier. The
 * vector sum of a word is cached, since few words make up most of a text. Cached and computed sums
 * are identical, so no prediction depends on earlier texts. */
#include "config.h"
#include "fasttext_private.h"
#include "hash.h"
#include "base/core/list.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Approximate memory of the cache, and the longest cached word. */
enum { CACHE_BYTES = 2 << 20, CACHED_WORD = 24 };

struct cached {
    uint32_t size; /* 0: free */
    int32_t vectors;
    char text[CACHED_WORD];
};

struct fasttext_scratch {
    struct cached *cache;
    size_t cache_size; /* a power of two */
    float *cache_sums; /* 'dimension' numbers per entry */
    float *sum, *word, *scores;
    LIST(int32_t) hashes; /* of the words of the text, for word n-grams */
};

struct fasttext_scratch *fasttext_scratch_create(const struct fasttext *model)
{
    struct fasttext_scratch *scratch = xcalloc(1, sizeof(*scratch));
    size_t dimension = (size_t)model->dimension;

    scratch->cache_size = 16;
    while (scratch->cache_size * 2 * dimension * sizeof(float) <= CACHE_BYTES)
        scratch->cache_size *= 2;
    scratch->cache = xcalloc(scratch->cache_size, sizeof(*scratch->cache));
    scratch->cache_sums = xmalloc(scratch->cache_size * dimension * sizeof(float));
    scratch->sum = xmalloc(dimension * sizeof(float));
    scratch->word = xmalloc(dimension * sizeof(float));
    scratch->scores = xmalloc(2 * (size_t)model->label_count * sizeof(float));
    return scratch;
}

void fasttext_scratch_destroy(struct fasttext_scratch *scratch)
{
    if (!scratch)
        return;
    free(scratch->cache);
    free(scratch->cache_sums);
    free(scratch->sum);
    free(scratch->word);
    free(scratch->scores);
    list_free(&scratch->hashes);
    free(scratch);
}

static float load_float(const char *at)
{
    float value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static const char *centroid(const struct quantizer *quantizer, int32_t part, uint8_t code)
{
    if (part == quantizer->parts - 1)
        return quantizer->centroids + ((size_t)part * 256 * (size_t)quantizer->part_size +
                                       (size_t)code * (size_t)quantizer->last_size) *
                                          4;
    return quantizer->centroids + ((size_t)part * 256 + code) * (size_t)quantizer->part_size * 4;
}

static float row_norm(const struct matrix *matrix, int64_t row)
{
    return matrix->norm_codes ? load_float(centroid(&matrix->norms, 0, matrix->norm_codes[row]))
                              : 1;
}

/* sum += row */
static void add_row(const struct matrix *matrix, int64_t row, float *sum)
{
    const struct quantizer *quantizer = &matrix->quantizer;
    const uint8_t *codes;
    float norm;

    if (matrix->data) {
        const char *from = matrix->data + (size_t)row * (size_t)matrix->columns * 4;

        for (int64_t i = 0; i < matrix->columns; i++)
            sum[i] += load_float(from + 4 * i);
        return;
    }
    codes = matrix->codes + (size_t)row * (size_t)quantizer->parts;
    norm = row_norm(matrix, row);
    for (int32_t part = 0; part < quantizer->parts; part++) {
        const char *from = centroid(quantizer, part, codes[part]);
        int32_t size = part == quantizer->parts - 1 ? quantizer->last_size : quantizer->part_size;

        for (int32_t i = 0; i < size; i++)
            sum[part * quantizer->part_size + i] += norm * load_float(from + 4 * i);
    }
}

static float dot_row(const struct matrix *matrix, int64_t row, const float *vector, float *room)
{
    float dot = 0;

    memset(room, 0, (size_t)matrix->columns * sizeof(*room));
    add_row(matrix, row, room);
    for (int64_t i = 0; i < matrix->columns; i++)
        dot += room[i] * vector[i];
    return dot;
}

/* The row of an n-gram's bucket, or -1 if it was pruned. */
static int64_t ngram_row(const struct fasttext *model, int32_t bucket)
{
    uint32_t at;

    if (model->pruned < 0)
        return (int64_t)model->word_count + bucket;
    if (model->pruned == 0)
        return -1;
    at = kept_place((uint32_t)bucket, model->kept_mask);
    while (model->kept[at].to >= 0 && model->kept[at].from != bucket)
        at = (at + 1) & model->kept_mask;
    return model->kept[at].to < 0 ? -1 : (int64_t)model->word_count + model->kept[at].to;
}

static int add_ngram(const struct fasttext *model, uint32_t hash, float *sum)
{
    int64_t row;

    if (model->buckets == 0)
        return 0;
    row = ngram_row(model, (int32_t)(hash % (uint32_t)model->buckets));
    if (row < 0)
        return 0;
    add_row(&model->input, row, sum);
    return 1;
}

static char byte_of(const char *word, size_t size, size_t at)
{
    return at == 0 ? '<' : at <= size ? word[at - 1] : '>';
}

/* Add the vectors of the character n-grams of <word>. Returns their number. */
static int32_t add_characters(const struct fasttext *model, const char *word, size_t size,
                              float *sum)
{
    size_t end = size + 2;
    int32_t vectors = 0;

    for (size_t i = 0; i < end; i++) {
        uint32_t hash = 2166136261u;
        size_t j = i;

        if (((uint8_t)byte_of(word, size, i) & 0xC0) == 0x80)
            continue;
        for (int32_t n = 1; j < end && n <= model->max_chars; n++) {
            do {
                hash = (hash ^ (uint32_t)(int8_t)byte_of(word, size, j++)) * 16777619u;
            } while (j < end && ((uint8_t)byte_of(word, size, j) & 0xC0) == 0x80);
            if (n >= model->min_chars && !(n == 1 && (i == 0 || j == end)))
                vectors += add_ngram(model, hash, sum);
        }
    }
    return vectors;
}

static int32_t find_word(const struct fasttext *model, const char *word, size_t size, uint32_t hash)
{
    uint32_t at = hash & model->slot_mask;

    for (; model->slots[at] >= 0; at = (at + 1) & model->slot_mask) {
        const struct fasttext_entry *entry = &model->words[model->slots[at]];

        if (entry->size == size && memcmp(entry->text, word, size) == 0)
            return model->slots[at];
    }
    return -1;
}

/* Sum the vectors of a word into 'sum'. 'ends': this is the end-of-text token. Returns their
 * number. */
static int32_t word_vectors(const struct fasttext *model, const char *word, size_t size, int ends,
                            float *sum)
{
    int32_t id = find_word(model, word, size, fasttext_hash(word, size)), vectors = 0;

    memset(sum, 0, (size_t)model->dimension * sizeof(*sum));
    if (id >= 0) {
        add_row(&model->input, id, sum);
        vectors++;
    }
    if (!ends && model->max_chars > 0)
        vectors += add_characters(model, word, size, sum);
    return vectors;
}

static int32_t add_word(const struct fasttext *model, struct fasttext_scratch *scratch,
                        const char *word, size_t size)
{
    size_t dimension = (size_t)model->dimension;
    const float *from = scratch->word;
    int32_t vectors;

    if (size <= CACHED_WORD) {
        size_t at = hash_bytes(word, size, 0) & (scratch->cache_size - 1);
        struct cached *cached = &scratch->cache[at];
        float *kept = scratch->cache_sums + at * dimension;

        if (cached->size != size || memcmp(cached->text, word, size) != 0) {
            cached->vectors = word_vectors(model, word, size, 0, kept);
            cached->size = (uint32_t)size;
            memcpy(cached->text, word, size);
        }
        from = kept;
        vectors = cached->vectors;
    } else {
        vectors = word_vectors(model, word, size, 0, scratch->word);
    }
    for (size_t i = 0; i < dimension; i++)
        scratch->sum[i] += from[i];
    return vectors;
}

static int32_t add_word_ngrams(const struct fasttext *model, struct fasttext_scratch *scratch)
{
    int32_t vectors = 0;

    for (size_t i = 0; i < scratch->hashes.count; i++) {
        uint64_t hash = (uint64_t)(int64_t)scratch->hashes.items[i];

        for (size_t j = i + 1;
             j < scratch->hashes.count && j < i + (size_t)model->word_ngrams && model->buckets > 0;
             j++) {
            int64_t row;

            hash = hash * 116049371 + (uint64_t)(int64_t)scratch->hashes.items[j];
            row = ngram_row(model, (int32_t)(hash % (uint64_t)model->buckets));
            if (row >= 0) {
                add_row(&model->input, row, scratch->sum);
                vectors++;
            }
        }
    }
    return vectors;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0';
}

/* Sum all vectors of a text into scratch->sum. Returns their number. */
static int32_t add_text(const struct fasttext *model, struct fasttext_scratch *scratch,
                        const char *text, size_t size)
{
    static const char last[] = "</s>", label[] = "__label__";
    int32_t vectors = 0;

    memset(scratch->sum, 0, (size_t)model->dimension * sizeof(float));
    scratch->hashes.count = 0;
    for (size_t i = 0; i < size;) {
        size_t begin;

        while (i < size && is_blank(text[i]))
            i++;
        begin = i;
        while (i < size && !is_blank(text[i]))
            i++;
        if (i == begin ||
            (i - begin >= sizeof(label) - 1 && memcmp(text + begin, label, sizeof(label) - 1) == 0))
            continue;
        vectors += add_word(model, scratch, text + begin, i - begin);
        if (model->word_ngrams > 1)
            *list_add(&scratch->hashes) = (int32_t)fasttext_hash(text + begin, i - begin);
    }
    vectors += word_vectors(model, last, sizeof(last) - 1, 1, scratch->word);
    for (int32_t i = 0; i < model->dimension; i++)
        scratch->sum[i] += scratch->word[i];
    if (model->word_ngrams > 1) {
        *list_add(&scratch->hashes) = (int32_t)fasttext_hash(last, sizeof(last) - 1);
        vectors += add_word_ngrams(model, scratch);
    }
    return vectors;
}

static float sigmoid(float x)
{
    return (float)(1.0 / (1.0 + exp((double)-x)));
}

/* fastText's sigmoid for one-vs-all losses: a table of 512 steps in [-8, 8]. */
static double table_sigmoid(float x)
{
    int step;

    if (!(x >= -8)) /* also true for the NaN of a damaged model */
        return 0;
    if (x > 8)
        return 1;
    step = (int)((x + 8) * 512 / 8 / 2);
    return 1.0 / (1.0 + exp(-(step * 2 * 8 / 512.0 - 8)));
}

static float safe_log(float x)
{
    return (float)log((double)x + 1e-5);
}

/* Compute the log probabilities of all leaves, from the root down. */
static void score_tree(const struct fasttext *model, struct fasttext_scratch *scratch)
{
    int32_t labels = model->label_count;
    float *scores = scratch->scores;

    scores[2 * labels - 2] = 0;
    for (int32_t i = labels - 2; i >= 0; i--) {
        float f = sigmoid(dot_row(&model->output, i, scratch->sum, scratch->word));

        scores[model->tree[i].left] = scores[labels + i] + safe_log(1 - f);
        scores[model->tree[i].right] = scores[labels + i] + safe_log(f);
    }
}

static double score_labels(const struct fasttext *model, struct fasttext_scratch *scratch)
{
    float *scores = scratch->scores, most = -INFINITY;
    double sum = 0;

    for (int32_t i = 0; i < model->label_count; i++) {
        scores[i] = dot_row(&model->output, i, scratch->sum, scratch->word);
        most = scores[i] > most ? scores[i] : most;
    }
    for (int32_t i = 0; i < model->label_count; i++)
        sum += exp((double)(scores[i] - most));
    return log(sum) + (double)most;
}

const char *fasttext_predict(const struct fasttext *model, struct fasttext_scratch *scratch,
                             const char *text, size_t size, double *probability)
{
    int32_t vectors = add_text(model, scratch, text, size), best = 0;
    double norm = 0;

    *probability = 0;
    if (vectors == 0)
        return NULL;
    for (int32_t i = 0; i < model->dimension; i++)
        scratch->sum[i] *= 1.0f / (float)vectors;
    if (model->loss == LOSS_HIERARCHICAL)
        score_tree(model, scratch);
    else
        norm = score_labels(model, scratch);
    for (int32_t i = 1; i < model->label_count; i++)
        if (scratch->scores[i] > scratch->scores[best])
            best = i;
    if (model->loss == LOSS_HIERARCHICAL)
        *probability = exp((double)scratch->scores[best]);
    else if (model->loss == LOSS_SOFTMAX)
        *probability = exp((double)scratch->scores[best] - norm);
    else
        *probability = table_sigmoid(scratch->scores[best]);
    return model->labels[best].text;
}
