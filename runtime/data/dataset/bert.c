/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "bert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

/* --- The mapping in the index cache ---------------------------------------------------------- */

struct building {
    const struct indexed *corpus;
    struct bert_request request;
    int64_t first;
};

static int write_mapping(struct index_writer *writer, const struct bert_range *ranges,
                         int64_t count, struct error *err)
{
    struct index_layout layout = {.array[0] = {count, sizeof(*ranges)}};

    return index_writer_layout(writer, &layout, err) < 0 ||
                   index_writer_write(writer, 0, 0, count, ranges, err) < 0
               ? -1
               : 0;
}

static int no_samples(const struct building *b, struct error *err)
{
    return error_set_code(err, ERROR_USAGE,
                          "%s: no document has %d sentences of at most 512 tokens; make it with "
                          "`megatron preprocess --split-sentences`",
                          indexed_prefix(b->corpus), b->request.least);
}

static int build(void *arg, struct index_writer *writer, struct error *err)
{
    struct building *b = arg;
    int64_t sentences = indexed_info(b->corpus)->sequences, count = -1;
    int64_t *documents = xcalloc((size_t)b->request.document_count + 1, sizeof(*documents));
    int32_t *lengths = xcalloc((size_t)sentences + 1, sizeof(*lengths));
    struct bert_range *ranges = NULL;

    if (indexed_documents(b->corpus, b->first, b->request.document_count + 1, documents, err) ==
            0 &&
        indexed_lengths(b->corpus, 0, sentences, lengths, err) == 0) {
        b->request.documents = documents;
        b->request.lengths = lengths;
        count = bert_mapping(&b->request, &ranges, err);
    }
    if (count == 0)
        count = no_samples(b, err);
    if (count > 0)
        count = write_mapping(writer, ranges, count, err);
    free(ranges);
    free(documents);
    free(lengths);
    return count < 0 ? -1 : 0;
}

struct index_file *bert_index_get(const struct indexed *corpus, int64_t first, int64_t count,
                                  const struct masked_config *config, int64_t sequence_length,
                                  int64_t samples, uint32_t seed, const char *split,
                                  const struct index_place *place, struct error *err)
{
    const struct indexed_info *info = indexed_info(corpus);
    struct building building = {
        .corpus = corpus,
        .request = {.document_count = count,
                    .samples = samples,
                    .target = sequence_length - 3,
                    .short_probability = config->short_probability,
                    .seed = seed,
                    .least = config->binary ? 2 : 1},
        .first = first,
    };
    struct index_request request = {
        .place = place, .kind = "BERTDataset", .build = build, .arg = &building};
    struct index_file *file;
    char *description;

    if (info->sequences >= UINT32_MAX) {
        error_set(err, "%s: more than 2^32 sentences; split the corpus", indexed_prefix(corpus));
        return NULL;
    }
    description = xasprintf("BERT samples\nprefix %s\nsequences %" PRId64 "\nidx size %" PRId64
                            "\nidx time %" PRId64 "\ndocuments %" PRId64 " +%" PRId64 "\nsplit %s\n"
                            "target %" PRId64 "\nsamples %" PRId64 "\nshort %.17g\nseed %" PRIu32
                            "\nsentences %d\n",
                            indexed_prefix(corpus), info->sequences, info->idx_size, info->idx_time,
                            first, count, split, building.request.target, samples,
                            config->short_probability, seed, building.request.least);
    request.description = description;
    file = index_file_get(&request, err);
    free(description);
    return file;
}

int64_t bert_index_samples(const struct index_file *index)
{
    return index_file_layout(index)->array[0].count;
}

/* --- Samples --------------------------------------------------------------------------------- */

/* Read the sentences of a range one after the other; 'ends' are theirs. The caller frees. */
static int32_t *read_sentences(const struct indexed *corpus, const struct bert_range *range,
                               int64_t *ends, struct error *err)
{
    int64_t count = (int64_t)range->end - range->first, total = 0;
    int32_t *lengths = xcalloc((size_t)count, sizeof(*lengths)), *text = NULL;

    if (indexed_lengths(corpus, range->first, count, lengths, err) == 0) {
        for (int64_t i = 0; i < count; i++)
            ends[i] = total += lengths[i];
        text = xcalloc((size_t)total + 1, sizeof(*text));
    }
    for (int64_t i = 0; i < count && text; i++) {
        int64_t begin = i > 0 ? ends[i - 1] : 0;

        if (indexed_tokens(corpus, range->first + i, 0, ends[i] - begin, text + begin,
                           ends[i] - begin, err) < 0) {
            free(text);
            text = NULL;
        }
    }
    free(lengths);
    return text;
}

int bert_fill(const struct masked_config *config, const struct index_file *index,
              const struct indexed *corpus, int64_t sequence_length, uint32_t seed, int64_t number,
              struct batch *batch, int64_t row, struct error *err)
{
    struct bert_range range;
    struct bert_sample sample = {0};
    int64_t *ends;
    int32_t *text = NULL, *room;
    int rc = -1;

    if (index_file_read(index, 0, number, 1, &range, err) < 0)
        return -1;
    if (range.end <= range.first || range.end > indexed_info(corpus)->sequences ||
        range.target < 2 || (int64_t)range.target > sequence_length - 3)
        return error_set(err, "%s is damaged; remove it and run again", index_file_path(index));
    ends = xcalloc((size_t)(range.end - range.first), sizeof(*ends));
    room = xcalloc(3 * (size_t)sequence_length, sizeof(*room));
    text = read_sentences(corpus, &range, ends, err);
    if (text) {
        sample.tokens = room;
        sample.labels = room + sequence_length;
        sample.types = room + 2 * sequence_length;
        rc = bert_make(config, seed, number, text, ends, (int64_t)range.end - range.first,
                       range.target, &sample, err);
    }
    if (rc == 0) {
        masked_put(config, sequence_length, batch, row,
                   &(struct masked_row){sample.tokens, sample.labels, sample.types, sample.count});
        if (batch->binary)
            batch->binary[row] = sample.is_random;
    } else if (text) {
        error_prefix(err, "%s.bin: sample %" PRId64, indexed_prefix(corpus), number);
    }
    free(text);
    free(room);
    free(ends);
    return rc;
}
