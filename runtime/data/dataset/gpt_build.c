/* SPDX-License-Identifier: Apache-2.0 */
/* Only the generator of the two shuffles is sequential: each draw depends on the previous one.
 * Everything else is split into chunks, and prefix sums tell each chunk the position of its tokens
 * in the stream and of its samples in the file. At most the document array, or later the lengths
 * and the shuffle array, are in memory; the rest is written to the file through small buffers. */
#include "config.h"
#include "gpt_index.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/core/xmalloc.h"
#include "mt19937.h"
#include "base/core/threads.h"

enum { PIECE = 65536, CHUNKS_PER_THREAD = 8 };

struct chunk {
    int64_t first, count; /* entries of the array being processed */
    int64_t tokens;       /* in this chunk */
    int64_t before;       /* in all chunks before it */
};

struct work {
    const struct gpt_request *request;
    struct index_writer *writer;
    struct gpt_sizes sizes;
    struct mt19937 rng;
    struct chunk *chunks;
    int64_t chunk_count;
    int threads;
    int32_t *lengths; /* of the sequences of this split */
    struct error shuffle_err;
    int shuffle_status;
};

/* Large arrays with random access: use huge pages if available. */
static void *pages_get(int64_t count, size_t width, struct error *err)
{
    size_t size = (size_t)count * width;
    void *pages = mmap(NULL, size > 0 ? size : 1, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (pages == MAP_FAILED) {
        error_set(err, "the index (%zu bytes): out of memory", size);
        return NULL;
    }
    madvise(pages, size, MADV_HUGEPAGE);
    return pages;
}

static void pages_put(void *pages, int64_t count, size_t width)
{
    size_t size = (size_t)count * width;

    if (pages)
        munmap(pages, size > 0 ? size : 1);
}

/* Split [0, entries) into chunks for the threads. */
static void cut(struct work *work, int64_t entries)
{
    int64_t count = (int64_t)work->threads * CHUNKS_PER_THREAD, each;

    each = (entries + count - 1) / count;
    each = each > 0 ? (each + PIECE - 1) / PIECE * PIECE : PIECE;
    work->chunk_count = (entries + each - 1) / each;
    free(work->chunks);
    work->chunks = xcalloc((size_t)work->chunk_count, sizeof(*work->chunks));
    for (int64_t i = 0; i < work->chunk_count; i++) {
        work->chunks[i].first = i * each;
        work->chunks[i].count = entries - i * each < each ? entries - i * each : each;
    }
}

/* Compute the prefix sums. Returns the total. */
static int64_t add_up(struct work *work)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < work->chunk_count; i++) {
        work->chunks[i].before = sum;
        sum += work->chunks[i].tokens;
    }
    return sum;
}

/* Sum the lengths of a chunk of sequences, and copy them if required. */
static int sum_lengths(void *arg, int64_t i, struct error *err)
{
    struct work *work = arg;
    struct chunk *chunk = &work->chunks[i];
    int32_t *piece = work->lengths ? NULL : xmalloc(PIECE * sizeof(*piece));
    int status = 0;

    chunk->tokens = 0;
    for (int64_t at = 0; at < chunk->count && status == 0; at += PIECE) {
        int64_t first = chunk->first + at;
        int64_t count = chunk->count - at < PIECE ? chunk->count - at : PIECE;
        int32_t *lengths = piece ? piece : work->lengths + first;

        status = indexed_lengths(work->request->corpus, work->request->first + first, count,
                                 lengths, err);
        for (int64_t j = 0; j < count && status == 0; j++)
            chunk->tokens += lengths[j];
    }
    free(piece);
    return status;
}

static void number_documents(const struct gpt_request *request, uint32_t *documents, int64_t epochs)
{
    for (int64_t epoch = 0; epoch < epochs; epoch++)
        for (int64_t i = 0; i < request->count; i++)
            documents[epoch * request->count + i] = (uint32_t)(request->first + i);
}

static int write_array(struct work *work, int which, int64_t first, int64_t count, int width,
                       const void *data, struct error *err)
{
    const char *at = data;

    for (int64_t done = 0; done < count; done += 16 * PIECE) {
        int64_t piece = count - done < 16 * PIECE ? count - done : 16 * PIECE;

        if (index_writer_write(work->writer, which, first + done, piece, at + done * width, err) <
            0)
            return -1;
    }
    return 0;
}

static int build_documents(struct work *work, struct error *err)
{
    const struct gpt_sizes *sizes = &work->sizes;
    int64_t count = sizes->documents, last = sizes->separate ? work->request->count : 0;
    uint32_t *documents = pages_get(count, sizeof(*documents), err);
    int status;

    if (!documents)
        return -1;
    number_documents(work->request, documents, sizes->epochs);
    shuffle_u32(&work->rng, documents, count - last, work->threads);
    shuffle_u32(&work->rng, documents + count - last, last, work->threads);
    status = write_array(work, GPT_DOCUMENT, 0, count, 4, documents, err);
    pages_put(documents, count, sizeof(*documents));
    return status;
}

static int sum_documents(void *arg, int64_t i, struct error *err)
{
    struct work *work = arg;
    struct chunk *chunk = &work->chunks[i];
    int32_t *documents = xmalloc(PIECE * sizeof(*documents));
    int status = 0;

    chunk->tokens = 0;
    for (int64_t at = 0; at < chunk->count && status == 0; at += PIECE) {
        int64_t count = chunk->count - at < PIECE ? chunk->count - at : PIECE;

        status =
            index_writer_read(work->writer, GPT_DOCUMENT, chunk->first + at, count, documents, err);
        for (int64_t j = 0; j < count && status == 0; j++)
            chunk->tokens += work->lengths[documents[j] - work->request->first];
    }
    free(documents);
    return status;
}

/* Entries of the sample array, buffered for the file. */
struct sample_buffer {
    struct work *work;
    int64_t first, count; /* of the samples in 'wide' or 'narrow' */
    int64_t *wide;
    int32_t *narrow;
};

static int flush_samples(struct sample_buffer *out, struct error *err)
{
    const void *data = out->wide ? (const void *)out->wide : (const void *)out->narrow;
    int status = 0;

    if (out->count > 0)
        status =
            index_writer_write(out->work->writer, GPT_SAMPLE, out->first, out->count, data, err);
    out->first += out->count;
    out->count = 0;
    return status;
}

static int put_sample(struct sample_buffer *out, int64_t document, int64_t offset,
                      struct error *err)
{
    if (out->count == PIECE && flush_samples(out, err) < 0)
        return -1;
    if (out->wide) {
        out->wide[2 * out->count] = document;
        out->wide[2 * out->count + 1] = offset;
    } else {
        out->narrow[2 * out->count] = (int32_t)document;
        out->narrow[2 * out->count + 1] = (int32_t)offset;
    }
    out->count++;
    return 0;
}

/* Find the samples that start within one chunk of documents: sample k starts at token k * S. */
static int place_samples(struct work *work, const struct chunk *chunk, struct sample_buffer *out,
                         int32_t *documents, struct error *err)
{
    int64_t length = work->request->sequence_length, token = chunk->before;
    int64_t sample = (token + length - 1) / length, next = sample * length;

    out->first = sample;
    for (int64_t at = 0; at < chunk->count; at++) {
        int64_t end;

        if (at % PIECE == 0) {
            int64_t rest = chunk->count - at;

            if (index_writer_read(work->writer, GPT_DOCUMENT, chunk->first + at,
                                  rest < PIECE ? rest : PIECE, documents, err) < 0)
                return -1;
        }
        end = token + work->lengths[documents[at % PIECE] - work->request->first];
        for (; next < end; sample++, next += length) {
            /* The first sample starts with the first document, even if that is empty. */
            if (put_sample(out, sample > 0 ? chunk->first + at : 0, next - token, err) < 0)
                return -1;
        }
        token = end;
    }
    return flush_samples(out, err);
}

static int build_samples(void *arg, int64_t i, struct error *err)
{
    struct work *work = arg;
    struct sample_buffer out = {.work = work};
    int32_t *documents = xmalloc(PIECE * sizeof(*documents));
    int status;

    if (work->sizes.sample_width == 8)
        out.wide = xmalloc(PIECE * 2 * sizeof(*out.wide));
    else
        out.narrow = xmalloc(PIECE * 2 * sizeof(*out.narrow));
    status = place_samples(work, &work->chunks[i], &out, documents, err);
    free(documents);
    free(out.wide);
    free(out.narrow);
    return status;
}

/* The numbers of all samples, shuffled: those of the last epoch, from 'cut' on, separately. */
static int make_shuffle(struct work *work, struct error *err)
{
    const struct gpt_sizes *sizes = &work->sizes;
    int64_t count = sizes->samples, cut = sizes->separate ? sizes->sans_final : count;
    int width = sizes->shuffle_width, status;
    int threads = (work->threads + 1) / 2; /* samples are located in the same pass */
    void *array = pages_get(count, (size_t)width, err);
    int64_t *wide = array;
    uint32_t *narrow = array;

    if (!array)
        return -1;
    for (int64_t i = 0; i < count; i++)
        if (width == 8)
            wide[i] = i;
        else
            narrow[i] = (uint32_t)i;
    if (width == 8) {
        shuffle_i64(&work->rng, wide, cut, threads);
        shuffle_i64(&work->rng, wide + cut, count - cut, threads);
    } else {
        shuffle_u32(&work->rng, narrow, cut, threads);
        shuffle_u32(&work->rng, narrow + cut, count - cut, threads);
    }
    status = write_array(work, GPT_SHUFFLE, 0, count, width, array, err);
    pages_put(array, count, (size_t)width);
    return status;
}

static void *build_shuffle(void *arg)
{
    struct work *work = arg;

    work->shuffle_status = make_shuffle(work, &work->shuffle_err);
    return NULL;
}

static int build_sample_array(struct work *work, struct error *err)
{
    const struct gpt_sizes *sizes = &work->sizes;

    /* Without tokens no chunk contains the array's only entry. */
    if (sizes->tokens == 0)
        return index_writer_write(work->writer, GPT_SAMPLE, 0, 1, (const int64_t[2]){0, 0}, err);
    work->lengths = pages_get(work->request->count, sizeof(*work->lengths), err);
    if (!work->lengths)
        return -1;
    cut(work, work->request->count);
    if (threads_loop(work->threads, work->chunk_count, sum_lengths, work, err) < 0)
        return -1;
    if (add_up(work) != sizes->tokens)
        return error_set(
            err, "%s.idx changed while it was read; run again when nothing else writes to it",
            indexed_prefix(work->request->corpus));
    cut(work, sizes->documents);
    if (threads_loop(work->threads, work->chunk_count, sum_documents, work, err) < 0)
        return -1;
    add_up(work);
    return threads_loop(work->threads, work->chunk_count, build_samples, work, err);
}

static int lay_out(struct work *work, struct error *err)
{
    const struct gpt_request *request = work->request;
    struct gpt_sizes *sizes = &work->sizes;
    struct index_layout layout = {0};

    if (request->first + request->count > INT32_MAX)
        return error_set(
            err, "%" PRId64 " sequences are more than Megatron's index can hold; split the corpus",
            request->first + request->count);
    cut(work, request->count);
    if (threads_loop(work->threads, work->chunk_count, sum_lengths, work, err) < 0 ||
        gpt_sizes(add_up(work), request->count, request->sequence_length, request->samples, sizes,
                  err) < 0)
        return -1;
    layout.array[GPT_DOCUMENT].count = sizes->documents;
    layout.array[GPT_DOCUMENT].width = 4;
    layout.array[GPT_SAMPLE].count = sizes->samples + 1;
    layout.array[GPT_SAMPLE].width = 2 * sizes->sample_width;
    layout.array[GPT_SHUFFLE].count = sizes->samples;
    layout.array[GPT_SHUFFLE].width = sizes->shuffle_width;
    layout.value[0] = sizes->tokens;
    layout.value[1] = sizes->epochs;
    layout.value[2] = sizes->separate;
    return index_writer_layout(work->writer, &layout, err);
}

int gpt_build(void *arg, struct index_writer *writer, struct error *err)
{
    const struct gpt_build *build = arg;
    struct work *work = xcalloc(1, sizeof(*work));
    int status = -1, beside;
    pthread_t thread;

    work->request = build->request;
    work->writer = writer;
    work->threads = build->threads;
    mt19937_seed(&work->rng, build->request->seed);
    if (lay_out(work, err) == 0 && build_documents(work, err) == 0) {
        beside = work->threads > 1 && pthread_create(&thread, NULL, build_shuffle, work) == 0;
        status = build_sample_array(work, err);
        if (beside)
            pthread_join(thread, NULL);
        else if (status == 0)
            build_shuffle(work);
        if (status == 0 && work->shuffle_status < 0)
            status = error_set(err, "%s", work->shuffle_err.text);
    }
    pages_put(work->lengths, work->request->count, sizeof(*work->lengths));
    free(work->chunks);
    free(work);
    return status;
}
