/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "gpt_index.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"
#include "lib/cpuset.h"

int gpt_sizes(int64_t tokens, int64_t sequences, int64_t sequence_length, int64_t samples,
              struct gpt_sizes *sizes, struct error *err)
{
    int64_t wanted, all;

    memset(sizes, 0, sizeof(*sizes));
    sizes->tokens = tokens;
    sizes->epochs = 1;
    if (samples >= 0) {
        if (__builtin_mul_overflow(samples, sequence_length, &wanted) || wanted == INT64_MAX)
            return error_set_code(err, ERROR_USAGE,
                                  "%" PRId64 " samples of %" PRId64
                                  " tokens are too many; train for fewer steps",
                                  samples, sequence_length);
        wanted++;
        if (tokens == 0)
            return error_set_code(
                err, ERROR_USAGE,
                "its documents contain no tokens; tokenize the corpus again, or train without it");
        sizes->epochs = wanted / tokens + (wanted % tokens != 0);
        if (sizes->epochs < 1)
            sizes->epochs = 1;
    }
    if (sizes->epochs > INT32_MAX || __builtin_mul_overflow(sizes->epochs, tokens, &all) ||
        __builtin_mul_overflow(sizes->epochs, sequences, &sizes->documents))
        return error_set_code(err, ERROR_USAGE,
                              "%" PRId64 " tokens would have to be repeated %" PRId64
                              " times; use more data, or train for fewer steps",
                              tokens, sizes->epochs);
    sizes->samples = all > 0 ? (all - 1) / sequence_length : 0;
    if (sizes->epochs > 1) {
        int64_t per_epoch = (tokens - 1) / sequence_length;

        sizes->sans_final = (all - tokens - 1) / sequence_length;
        sizes->separate = samples - sizes->sans_final < (int64_t)(0.80 * (double)per_epoch);
    }
    sizes->sample_width = sizes->documents <= INT32_MAX ? 4 : 8;
    sizes->shuffle_width = sizes->samples >= (int64_t)UINT32_MAX - 1 ? 8 : 4;
    return 0;
}

static char *describe(const struct gpt_request *request, const char *split)
{
    const struct indexed_info *info = indexed_info(request->corpus);
    const char *prefix = indexed_prefix(request->corpus);
    /* Initially the prefix itself does not exist; later it is the directory of the cache. */
    char *idx = xasprintf("%s.idx", prefix), *absolute = realpath(idx, NULL);
    char *text = xasprintf("GPT sample order 1\ncorpus %s\nsize %" PRId64 "\nchanged %" PRId64
                           "\nsequences %" PRId64 " from %" PRId64 " of %" PRId64
                           "\nsplit %s\nsequence length %" PRId64 "\nsamples %" PRId64
                           "\nseed %" PRIu32 "\n",
                           absolute ? absolute : prefix, info->idx_size, info->idx_time,
                           request->count, request->first, info->sequences, split,
                           request->sequence_length, request->samples, request->seed);

    free(idx);
    free(absolute);
    return text;
}

int index_threads(int wanted)
{
    const int most = wanted > 0 ? 64 : 16, count = wanted > 0 ? wanted : cpuset_usable();

    return count < most ? count : most;
}

struct index_file *gpt_index_get(const struct gpt_request *request, const char *split,
                                 const struct index_place *place, int threads, struct error *err)
{
    struct gpt_build build = {.request = request, .threads = index_threads(threads)};
    char *description = describe(request, split), kind[64];
    struct index_request cached = {
        .place = place,
        .kind = kind,
        .description = description,
        .build = gpt_build,
        .arg = &build,
    };
    struct index_file *file;

    snprintf(kind, sizeof(kind), "GPTDataset-%s", split);
    file = index_file_get(&cached, err);
    free(description);
    if (!file)
        error_prefix(err, "%s: %s data", indexed_prefix(request->corpus), split);
    return file;
}

int64_t gpt_index_samples(const struct index_file *index)
{
    return index_file_layout(index)->array[GPT_SHUFFLE].count;
}

/* Element 'at' of the shuffle array, whose elements have 4 or 8 bytes. */
static int read_shuffle(const struct index_file *index, int64_t at, int64_t *out, struct error *err)
{
    uint32_t narrow;

    if (index_file_layout(index)->array[GPT_SHUFFLE].width == 8)
        return index_file_read(index, GPT_SHUFFLE, at, 1, out, err);
    if (index_file_read(index, GPT_SHUFFLE, at, 1, &narrow, err) < 0)
        return -1;
    *out = narrow;
    return 0;
}

/* (document, offset) of sample 'at' and of the one after it. */
static int read_bounds(const struct index_file *index, int64_t at, int64_t out[4],
                       struct error *err)
{
    int32_t narrow[4];

    if (index_file_layout(index)->array[GPT_SAMPLE].width == 16)
        return index_file_read(index, GPT_SAMPLE, at, 2, out, err);
    if (index_file_read(index, GPT_SAMPLE, at, 2, narrow, err) < 0)
        return -1;
    for (int i = 0; i < 4; i++)
        out[i] = narrow[i];
    return 0;
}

enum { DOCUMENTS_AT_ONCE = 64 };

int gpt_index_text(const struct index_file *index, const struct indexed *corpus,
                   int64_t sequence_length, int64_t i, int32_t *text, struct error *err)
{
    int32_t documents[DOCUMENTS_AT_ONCE];
    int64_t sample, bounds[4], filled = 0;

    if (read_shuffle(index, i, &sample, err) < 0 || read_bounds(index, sample, bounds, err) < 0)
        return -1;
    for (int64_t at = bounds[0]; at <= bounds[2]; at++) {
        int64_t place = (at - bounds[0]) % DOCUMENTS_AT_ONCE, got;
        int64_t offset = at == bounds[0] ? bounds[1] : 0;
        int64_t count = at == bounds[2] ? bounds[3] + 1 - offset : -1;

        if (place == 0) {
            int64_t rest = bounds[2] - at + 1;

            if (index_file_read(index, GPT_DOCUMENT, at,
                                rest < DOCUMENTS_AT_ONCE ? rest : DOCUMENTS_AT_ONCE, documents,
                                err) < 0)
                return -1;
        }
        got = indexed_tokens(corpus, documents[place], offset, count, text + filled,
                             sequence_length + 1 - filled, err);
        if (got < 0)
            return -1;
        filled += got;
    }
    if (filled != sequence_length + 1)
        return error_set(err,
                         "%s: sample %" PRId64 " has %" PRId64 " tokens, not %" PRId64
                         "; the index does not belong to %s, remove it and run again",
                         index_file_path(index), i, filled, sequence_length + 1,
                         indexed_prefix(corpus));
    return 0;
}
