/* SPDX-License-Identifier: Apache-2.0 */
/* The file format: little-endian numbers without alignment. Every value is checked before use. */
#include "config.h"
#include "fasttext_private.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC 793712314

enum { MODEL_SUPERVISED = 3, ENTRY_WORD = 0, ENTRY_LABEL = 1 };
static const size_t largest_file = (size_t)16 << 30;
static const char prefix[] = "__label__";

/* The bytes that are left to read. */
struct cursor {
    const char *at, *end;
    int failed;
};

static const char *take(struct cursor *cursor, size_t size)
{
    const char *at = cursor->at;

    if (cursor->failed || (size_t)(cursor->end - at) < size) {
        cursor->failed = 1;
        return NULL;
    }
    cursor->at += size;
    return at;
}

static int32_t take_int32(struct cursor *cursor)
{
    const char *at = take(cursor, 4);
    int32_t value = 0;

    if (at)
        memcpy(&value, at, 4);
    return value;
}

static int64_t take_int64(struct cursor *cursor)
{
    const char *at = take(cursor, 8);
    int64_t value = 0;

    if (at)
        memcpy(&value, at, 8);
    return value;
}

static int take_bool(struct cursor *cursor)
{
    const char *at = take(cursor, 1);

    return at && *at != 0;
}

/* 'count' elements of 'size' bytes. */
static const char *take_array(struct cursor *cursor, int64_t count, size_t size)
{
    if (count < 0 || (uint64_t)count > (uint64_t)(cursor->end - cursor->at) / size) {
        cursor->failed = 1;
        return NULL;
    }
    return take(cursor, (size_t)count * size);
}

static int read_arguments(struct fasttext *model, struct cursor *cursor, struct error *err)
{
    int32_t magic = take_int32(cursor), version = take_int32(cursor), kind;

    if (cursor->failed || magic != MAGIC)
        return error_set(err, "not a fastText model");
    if (version < 11 || version > 12)
        return error_set(err,
                         "fastText model of version %d; 11 and 12 can be read: use a model of "
                         "another fastText version",
                         version);
    model->dimension = take_int32(cursor);
    take(cursor, 16); /* window, epochs, minimum count, negatives */
    model->word_ngrams = take_int32(cursor);
    model->loss = take_int32(cursor);
    kind = take_int32(cursor);
    model->buckets = take_int32(cursor);
    model->min_chars = take_int32(cursor);
    model->max_chars = take_int32(cursor);
    take(cursor, 12); /* update rate, sampling threshold */
    if (cursor->failed)
        return error_set(err, "the file is truncated; download it again");
    if (kind != MODEL_SUPERVISED)
        return error_set(err, "a fastText model of word vectors, not one that classifies texts");
    /* Classifiers of version 11 do not use character n-grams. */
    if (version == 11)
        model->max_chars = 0;
    if (model->dimension < 1 || model->dimension > 65536 || model->loss < LOSS_HIERARCHICAL ||
        model->loss > LOSS_OVA || model->buckets < 0 || model->min_chars < 0 ||
        model->max_chars > 64)
        return error_set(err,
                         "numbers in its header are out of range: the file is damaged; download it "
                         "again");
    return 0;
}

static int add_entry(struct fasttext *model, struct cursor *cursor)
{
    const char *text = cursor->at, *end = memchr(text, 0, (size_t)(cursor->end - text));
    struct fasttext_entry entry;
    const char *type;

    if (!end || end - text > 1 << 20)
        return -1;
    entry = (struct fasttext_entry){text, (uint32_t)(end - text), 0};
    take(cursor, (size_t)(end - text) + 1);
    entry.count = take_int64(cursor);
    type = take(cursor, 1);
    if (!type || (*type != ENTRY_WORD && *type != ENTRY_LABEL))
        return -1;
    if (*type == ENTRY_LABEL) {
        if (strncmp(entry.text, prefix, sizeof(prefix) - 1) == 0) {
            entry.text += sizeof(prefix) - 1;
            entry.size -= (uint32_t)(sizeof(prefix) - 1);
        }
        model->labels[model->label_count++] = entry;
    } else {
        model->words[model->word_count++] = entry;
    }
    return 0;
}

static void index_words(struct fasttext *model)
{
    size_t size = fasttext_table_size(model->word_count);

    model->slots = xmalloc(size * sizeof(*model->slots));
    memset(model->slots, 0xFF, size * sizeof(*model->slots));
    model->slot_mask = (uint32_t)(size - 1);
    for (int32_t i = 0; i < model->word_count; i++) {
        uint32_t at = fasttext_hash(model->words[i].text, model->words[i].size) & model->slot_mask;

        while (model->slots[at] >= 0)
            at = (at + 1) & model->slot_mask;
        model->slots[at] = i;
    }
}

static int read_pruning(struct fasttext *model, struct cursor *cursor, struct error *err)
{
    const char *data = take_array(cursor, model->pruned > 0 ? model->pruned : 0, 8);
    size_t size;

    if (!data || model->pruned > INT32_MAX / 4)
        return error_set(err, "the file is truncated; download it again");
    if (model->pruned <= 0)
        return 0;
    size = fasttext_table_size(model->pruned);
    model->kept = xmalloc(size * sizeof(*model->kept));
    memset(model->kept, 0xFF, size * sizeof(*model->kept));
    model->kept_mask = (uint32_t)(size - 1);
    for (int64_t i = 0; i < model->pruned; i++) {
        struct kept_ngram pair;
        uint32_t at;

        memcpy(&pair, data + 8 * i, sizeof(pair));
        if (pair.to < 0)
            return error_set(err, "its list of n-grams is damaged; download it again");
        at = kept_place((uint32_t)pair.from, model->kept_mask);
        while (model->kept[at].to >= 0 && model->kept[at].from != pair.from)
            at = (at + 1) & model->kept_mask;
        if (model->kept[at].to >= 0)
            return error_set(err, "its list of n-grams is damaged; download it again");
        model->kept[at] = pair;
    }
    return 0;
}

static int read_dictionary(struct fasttext *model, struct cursor *cursor, struct error *err)
{
    int32_t size = take_int32(cursor), words = take_int32(cursor), labels = take_int32(cursor);

    take_int64(cursor); /* tokens seen */
    model->pruned = take_int64(cursor);
    if (cursor->failed || words < 0 || labels < 1 || size != (int64_t)words + labels ||
        size > (cursor->end - cursor->at) / 10)
        return error_set(err, "its dictionary is damaged; download it again");
    model->words = xcalloc((size_t)size + 1, sizeof(*model->words));
    model->labels = xcalloc((size_t)size + 1, sizeof(*model->labels));
    for (int32_t i = 0; i < size; i++)
        if (add_entry(model, cursor) < 0)
            return error_set(err, "entry %d of its dictionary is damaged; download it again", i);
    if (model->word_count != words || model->label_count != labels)
        return error_set(err, "its dictionary is damaged; download it again");
    index_words(model);
    return read_pruning(model, cursor, err);
}

static int read_quantizer(struct quantizer *quantizer, struct cursor *cursor)
{
    quantizer->dimension = take_int32(cursor);
    quantizer->parts = take_int32(cursor);
    quantizer->part_size = take_int32(cursor);
    quantizer->last_size = take_int32(cursor);
    if (cursor->failed || quantizer->dimension < 1 || quantizer->parts < 1 ||
        quantizer->part_size < 1 || quantizer->last_size < 1 ||
        quantizer->last_size > quantizer->part_size ||
        (int64_t)(quantizer->parts - 1) * quantizer->part_size + quantizer->last_size !=
            quantizer->dimension)
        return -1;
    quantizer->centroids = take_array(cursor, (int64_t)quantizer->dimension * 256, 4);
    return quantizer->centroids ? 0 : -1;
}

static int read_matrix(struct matrix *matrix, int quantized, struct cursor *cursor)
{
    int norms = quantized && take_bool(cursor);
    int64_t codes;

    matrix->rows = take_int64(cursor);
    matrix->columns = take_int64(cursor);
    if (cursor->failed || matrix->rows < 0 || matrix->columns < 1 || matrix->columns > 65536 ||
        matrix->rows > INT64_MAX / 65536 / 4)
        return -1;
    if (!quantized) {
        matrix->data = take_array(cursor, matrix->rows * matrix->columns, 4);
        return matrix->data ? 0 : -1;
    }
    codes = take_int32(cursor);
    matrix->codes = (const uint8_t *)take_array(cursor, codes, 1);
    if (!matrix->codes || read_quantizer(&matrix->quantizer, cursor) < 0 ||
        matrix->quantizer.dimension != matrix->columns ||
        matrix->rows * matrix->quantizer.parts != codes)
        return -1;
    if (norms) {
        matrix->norm_codes = (const uint8_t *)take_array(cursor, matrix->rows, 1);
        if (!matrix->norm_codes || read_quantizer(&matrix->norms, cursor) < 0 ||
            matrix->norms.dimension != 1)
            return -1;
    }
    return 0;
}

/* The Huffman tree of hierarchical softmax follows from the label counts, which are sorted. */
static int build_tree(struct fasttext *model)
{
    int32_t labels = model->label_count, leaf = labels - 1, node = labels;
    int64_t *counts;

    if (labels > INT32_MAX / 2)
        return -1;
    counts = xcalloc((size_t)labels * 2, sizeof(*counts));
    model->tree = xcalloc((size_t)labels, sizeof(*model->tree));
    for (int32_t i = 0; i < 2 * labels - 1; i++)
        counts[i] = i < labels ? model->labels[i].count : (int64_t)1e15;
    for (int32_t i = labels; i < 2 * labels - 1; i++) {
        int32_t smallest[2];

        for (int k = 0; k < 2; k++)
            smallest[k] = leaf >= 0 && counts[leaf] < counts[node] ? leaf-- : node++;
        model->tree[i - labels] = (struct tree_node){smallest[0], smallest[1]};
        /* Damaged counts must not refer to a node that does not exist yet. */
        if (smallest[0] >= i || smallest[1] >= i ||
            __builtin_add_overflow(counts[smallest[0]], counts[smallest[1]], &counts[i])) {
            free(counts);
            return -1;
        }
    }
    free(counts);
    return 0;
}

static int read_model(struct fasttext *model, struct error *err)
{
    struct cursor cursor = {model->file.data, model->file.data + model->file.length, 0};
    int64_t inputs;
    int quantized, quantized_output;

    if (read_arguments(model, &cursor, err) < 0 || read_dictionary(model, &cursor, err) < 0)
        return -1;
    quantized = take_bool(&cursor);
    if (read_matrix(&model->input, quantized, &cursor) < 0)
        return error_set(err, "its input matrix is damaged; download it again");
    quantized_output = take_bool(&cursor);
    if (read_matrix(&model->output, quantized && quantized_output, &cursor) < 0)
        return error_set(err, "its output matrix is damaged; download it again");
    inputs = model->word_count + (model->pruned >= 0 ? model->pruned : (int64_t)model->buckets);
    if (model->max_chars <= 0 && model->word_ngrams <= 1)
        inputs = model->word_count;
    if (model->input.columns != model->dimension || model->output.columns != model->dimension ||
        model->input.rows < inputs || model->output.rows < model->label_count)
        return error_set(err, "its matrices do not fit its dictionary; download it again");
    for (uint32_t i = 0; model->kept && i <= model->kept_mask; i++)
        if (model->kept[i].to >= model->input.rows - model->word_count)
            return error_set(err, "its list of n-grams is damaged; download it again");
    if (model->loss == LOSS_HIERARCHICAL && build_tree(model) < 0) {
        error_set(err, "cannot build its label tree: its label counts are damaged (download it "
                       "again), or there is not enough memory");
        return error_append(err, "; raise the memory limit of the job (sbatch --mem)");
    }
    return 0;
}

struct fasttext *fasttext_open(const char *path, struct error *err)
{
    struct fasttext *model = xcalloc(1, sizeof(*model));

    if (file_read(path, largest_file, &model->file, err) < 0) {
        fasttext_close(model);
        return NULL;
    }
    if (read_model(model, err) < 0) {
        error_prefix(err, "%s", path);
        error_advise(err, "use a model that classifies texts, such as lid.176.bin");
        fasttext_close(model);
        return NULL;
    }
    return model;
}

void fasttext_close(struct fasttext *model)
{
    if (!model)
        return;
    file_bytes_clear(&model->file);
    free(model->words);
    free(model->labels);
    free(model->slots);
    free(model->kept);
    free(model->tree);
    free(model);
}

size_t fasttext_labels(const struct fasttext *model)
{
    return (size_t)model->label_count;
}

const char *fasttext_label(const struct fasttext *model, size_t number)
{
    return model->labels[number].text;
}
