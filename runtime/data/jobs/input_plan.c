/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "input_plan.h"
#include "bytes.h"
#include "disk.h"
#include "lib/file.h"
#include "base/core/storage.h"
#include "base/core/log.h"
#include "base/core/list.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PLAN_MAGIC 0x324e414c5047454dull /* "MEGPLAN2" */
#define PLAN_NAME  0x004e414c5047454dull /* "MEGPLAN", for all versions */

/* Chunks must be small, so that no rank waits long for the last one of a slow node, and few enough
 * for a directory. 4 MiB take 30 ms of one core; 100 TB make 400000 chunks of 256 MiB. The files of
 * a chunk cost about a millisecond, so larger corpora have chunks of at least 16 MiB. */
static const int64_t smallest_chunk = 4 << 20, usual_chunk = 16 << 20, largest_chunk = 256 << 20;
static const int64_t chunks_least = 16, chunks_most = 32768;

static int64_t default_size(int64_t total)
{
    int64_t size = total / chunks_least;

    if (size < smallest_chunk)
        return smallest_chunk;
    if (size < usual_chunk)
        return size;
    size = total / chunks_most;
    if (size < usual_chunk)
        return usual_chunk;
    return size < largest_chunk ? size : largest_chunk;
}

/* A user may ask for smaller chunks than the default, but not for more than 'chunks_most'. */
static int64_t chunk_size(int64_t total, int64_t asked)
{
    int64_t usual = default_size(total), least = (total + chunks_most - 1) / chunks_most;

    if (asked == 0)
        return usual;
    if (least > usual)
        least = usual;
    return asked > least ? asked : least;
}

/* The start of piece 'number'. The sizes of pieces differ by at most one byte. */
static int64_t piece_begin(int64_t size, int64_t number, int64_t pieces)
{
    return (int64_t)((__int128)size * number / pieces);
}

static void cut_files(struct input_plan *plan, enum record_mode mode, int64_t target)
{
    LIST(struct segment) segments = {0};

    for (size_t i = 0; i < plan->files.count; i++) {
        const struct corpus_file *file = &plan->files.items[i];
        int64_t pieces = 1;

        if (file->size > target && record_mode_cuts(mode) &&
            source_can_cut(file->path, file->codec, file->size))
            pieces = (file->size + target - 1) / target;
        for (int64_t k = 0; k < pieces; k++) {
            int64_t begin = piece_begin(file->size, k, pieces);
            int64_t end = k + 1 == pieces ? SOURCE_TO_END : piece_begin(file->size, k + 1, pieces);

            *list_add(&segments) = (struct segment){(uint32_t)i, begin, end};
        }
    }
    plan->segments = segments.items;
    plan->segment_count = segments.count;
}

/* Neighboring small files share a chunk. */
static void group_segments(struct input_plan *plan, int64_t target)
{
    int64_t held = 0;

    plan->chunks = xcalloc(plan->segment_count + 1, sizeof(*plan->chunks));
    for (size_t i = 0; i < plan->segment_count; i++) {
        const struct segment *segment = &plan->segments[i];
        int64_t size = plan->files.items[segment->file].size;
        int64_t end = segment->end < size ? segment->end : size;

        if (plan->chunk_count == 0 || held + end - segment->begin > target) {
            plan->chunks[plan->chunk_count++] = i;
            held = 0;
        }
        held += end - segment->begin;
    }
    plan->chunks[plan->chunk_count] = plan->segment_count;
}

void input_plan_put_wiki(struct bytes *bytes, const struct wiki_options *wiki)
{
    bytes_put_u64(bytes, (uint64_t)wiki->style);
    bytes_put_u64(bytes, (uint64_t)wiki->math);
    bytes_put_u64(bytes, (uint64_t)wiki->tables);
    bytes_put_u64(bytes, (uint64_t)wiki->no_title);
    bytes_put_u64(bytes, (uint64_t)wiki->redirects);
    bytes_put_u64(bytes, (uint64_t)wiki->disambiguations);
    bytes_put_u64(bytes, (uint64_t)wiki->min_length);
    bytes_put_u64(bytes, wiki->namespace_count);
    for (size_t i = 0; i < wiki->namespace_count; i++)
        bytes_put_u64(bytes, (uint64_t)wiki->namespaces[i]);
}

void input_plan_put_files(struct bytes *bytes, const struct input_plan *plan)
{
    for (size_t i = 0; i < plan->files.count; i++) {
        const struct corpus_file *file = &plan->files.items[i];

        bytes_put_text(bytes, file->path);
        bytes_put_u64(bytes, (uint64_t)file->size);
        bytes_put_u64(bytes, (uint64_t)file->modified);
        /* A pipe cannot be read again, so another run cannot use its chunks. */
        if (strcmp(file->path, "-") == 0) {
            bytes_put_u64(bytes, (uint64_t)getpid());
            bytes_put_u64(bytes, (uint64_t)time(NULL));
        }
    }
}

int64_t input_plan_cut(struct input_plan *plan, enum record_mode mode, int64_t chunk_bytes)
{
    int64_t target;

    plan->input_bytes = 0;
    for (size_t i = 0; i < plan->files.count; i++)
        plan->input_bytes += plan->files.items[i].size;
    target = chunk_size(plan->input_bytes, chunk_bytes);
    cut_files(plan, mode, target);
    group_segments(plan, target);
    return target;
}

void input_plan_note(const struct input_plan *plan, int64_t chunk_bytes, int64_t target)
{
    if (chunk_bytes > 0 && target > chunk_bytes)
        log_note("units of work are raised from %" PRId64 " to %" PRId64
                 " bytes for this input of %" PRId64 " bytes",
                 chunk_bytes, target, plan->input_bytes);
}

void input_plan_clear(struct input_plan *plan)
{
    corpus_files_clear(&plan->files);
    free(plan->segments);
    free(plan->chunks);
    memset(plan, 0, sizeof(*plan));
}

int input_plan_write(const struct input_plan *plan, const char *path, struct error *err)
{
    struct bytes bytes;

    bytes_begin(&bytes, PLAN_MAGIC);
    bytes_put_u64(&bytes, plan->identity);
    bytes_put_u64(&bytes, (uint64_t)plan->input_bytes);
    bytes_put_u64(&bytes, plan->files.count);
    for (size_t i = 0; i < plan->files.count; i++) {
        const struct corpus_file *file = &plan->files.items[i];

        bytes_put_text(&bytes, file->path);
        bytes_put_u64(&bytes, (uint64_t)file->size);
        bytes_put_u64(&bytes, (uint64_t)file->modified);
        bytes_put_u64(&bytes, file->codec);
    }
    bytes_put_u64(&bytes, plan->segment_count);
    for (size_t i = 0; i < plan->segment_count; i++) {
        bytes_put_u64(&bytes, plan->segments[i].file);
        bytes_put_u64(&bytes, (uint64_t)plan->segments[i].begin);
        bytes_put_u64(&bytes, (uint64_t)plan->segments[i].end);
    }
    bytes_put_u64(&bytes, plan->chunk_count);
    for (size_t i = 0; i < plan->chunk_count; i++)
        bytes_put_u64(&bytes, plan->chunks[i]);
    return bytes_save(&bytes, path, 0, err);
}

static int take_files(struct input_plan *plan, struct bytes *bytes)
{
    uint64_t count = bytes_take_u64(bytes);

    if (bytes->failed || count > bytes->size / 32)
        return -1;
    plan->files.items = xcalloc(count + 1, sizeof(*plan->files.items));
    for (uint64_t i = 0; i < count; i++) {
        struct corpus_file *file = &plan->files.items[i];

        file->path = bytes_take_text(bytes);
        plan->files.count++;
        file->size = (int64_t)bytes_take_u64(bytes);
        file->modified = (int64_t)bytes_take_u64(bytes);
        file->codec = (enum codec)bytes_take_u64(bytes);
        if (bytes->failed || file->codec > CODEC_UNKNOWN)
            return -1;
    }
    return 0;
}

static int take_chunks(struct input_plan *plan, struct bytes *bytes)
{
    uint64_t count = bytes_take_u64(bytes);

    if (bytes->failed || count > bytes->size / 24)
        return -1;
    plan->segments = xcalloc(count + 1, sizeof(*plan->segments));
    for (uint64_t i = 0; i < count; i++) {
        struct segment *segment = &plan->segments[i];

        segment->file = (uint32_t)bytes_take_u64(bytes);
        segment->begin = (int64_t)bytes_take_u64(bytes);
        segment->end = (int64_t)bytes_take_u64(bytes);
        if (segment->file >= plan->files.count)
            return -1;
    }
    plan->segment_count = count;
    count = bytes_take_u64(bytes);
    if (bytes->failed || count > plan->segment_count)
        return -1;
    plan->chunks = xcalloc(count + 1, sizeof(*plan->chunks));
    for (uint64_t i = 0; i < count; i++) {
        plan->chunks[i] = bytes_take_u64(bytes);
        if (plan->chunks[i] > plan->segment_count || (i && plan->chunks[i] < plan->chunks[i - 1]))
            return -1;
    }
    plan->chunk_count = count;
    plan->chunks[count] = plan->segment_count;
    return bytes->failed ? -1 : 0;
}

int input_plan_read(struct input_plan *plan, const char *path, struct error *err)
{
    struct bytes bytes;
    int rc;

    memset(plan, 0, sizeof(*plan));
    rc = bytes_load(&bytes, PLAN_MAGIC, path, err);
    if (rc != 0)
        return rc;
    plan->identity = bytes_take_u64(&bytes);
    plan->input_bytes = (int64_t)bytes_take_u64(&bytes);
    rc = take_files(plan, &bytes) < 0 || take_chunks(plan, &bytes) < 0;
    bytes_clear(&bytes);
    if (rc != 0)
        input_plan_clear(plan);
    return rc;
}

int input_plan_is(const char *path, struct error *err)
{
    uint64_t magic = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC), same;

    if (fd < 0 && errno == ENOENT)
        return 1;
    if (fd < 0) {
        error_set_errno(err, errno, "cannot read %s", path);
        return file_path_error(err);
    }
    same = disk_pread(fd, &magic, sizeof(magic), 0, path, NULL) == 0 &&
           (magic & 0x00ffffffffffffffull) == PLAN_NAME;
    close(fd);
    if (same && magic != PLAN_MAGIC)
        return error_set_code(err, ERROR_USAGE,
                              "%.*s was left by an earlier build of megatron; remove it, or "
                              "complete the run with that build",
                              (int)(strlen(path) - strlen("/plan")), path);
    return same;
}

struct large {
    int64_t bytes;
    size_t chunk;
};

static int larger_first(const void *a, const void *b)
{
    const struct large *left = a, *right = b;

    if (left->bytes != right->bytes)
        return left->bytes < right->bytes ? 1 : -1;
    return left->chunk < right->chunk ? -1 : 1;
}

size_t input_plan_large_chunks(const struct input_plan *plan, int64_t chunk_bytes, size_t **list)
{
    int64_t target = chunk_size(plan->input_bytes, chunk_bytes);
    struct large *all = xcalloc(plan->chunk_count + 1, sizeof(*all));
    size_t count = 0;

    for (size_t i = 0; i < plan->chunk_count; i++) {
        int64_t bytes = input_plan_chunk_bytes(plan, i);

        if (bytes > 2 * target)
            all[count++] = (struct large){bytes, i};
    }
    qsort(all, count, sizeof(*all), larger_first);
    *list = xcalloc(count + 1, sizeof(**list));
    for (size_t i = 0; i < count; i++)
        (*list)[i] = all[i].chunk;
    free(all);
    return count;
}

int64_t input_plan_chunk_bytes(const struct input_plan *plan, size_t chunk)
{
    int64_t total = 0;

    for (size_t i = plan->chunks[chunk]; i < plan->chunks[chunk + 1]; i++) {
        const struct segment *segment = &plan->segments[i];
        int64_t size = plan->files.items[segment->file].size;

        total += (segment->end < size ? segment->end : size) - segment->begin;
    }
    return total;
}
