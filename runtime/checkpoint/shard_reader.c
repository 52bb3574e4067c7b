#include "config.h"

#include "checksum.h"
#include "directory.h"
#include "shard_file.h"
#include "threads.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Ranks share a node's cores, and some file systems like few readers. */
enum { READERS_MOST = 4 };

struct shard_reader {
    int fd;
    char path[PATH_MAX];
    int64_t data, elements, bytes; /* bytes: of the arrays */
    uint64_t *sums;
    unsigned char *block;
    int64_t number; /* of the block in memory; -1: none */
    size_t size;
    struct threads *threads; /* NULL until there is work for them */
};

static int read_bytes(struct shard_reader *r, void *out, size_t count, int64_t at,
                      struct error *err)
{
    for (size_t done = 0; done < count;) {
        ssize_t got = pread(r->fd, (char *)out + done, count - done, at + (int64_t)done);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set_errno(err, errno, "cannot read %s", r->path);
        if (got == 0)
            return error_set(err, "%s is cut short", r->path);
        done += (size_t)got;
    }
    return 0;
}

/* Header and numbers against what the index says. */
static int check_head(struct shard_reader *r, const struct index_file *file, int64_t blocks,
                      struct error *err)
{
    char *header = malloc((size_t)file->data + 1);
    struct checksum sum;
    int rc;

    if (!header)
        return error_set(err, "out of memory");
    rc = read_bytes(r, header, (size_t)file->data, 0, err);
    if (rc == 0)
        rc = read_bytes(r, r->sums, (size_t)blocks * sizeof(*r->sums), r->data + r->bytes, err);
    if (rc == 0) {
        checksum_begin(&sum);
        checksum_add(&sum, header, (size_t)file->data);
        checksum_add(&sum, r->sums, (size_t)blocks * sizeof(*r->sums));
        if (checksum_end(&sum) != file->checksum)
            rc = error_set(err, "%s is damaged: its header or its checksums changed", r->path);
    }
    free(header);
    return rc;
}

static int open_reader(struct shard_reader *r, const struct index_file *file, struct error *err)
{
    struct stat status;
    int64_t blocks = shard_blocks(r->bytes);

    r->fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0 || fstat(r->fd, &status) < 0)
        return error_set_errno(err, errno, "cannot open %s", r->path);
    if (file->bytes != r->data + r->bytes + 8 * blocks || status.st_size != file->bytes)
        return error_set(err, "%s has %lld bytes, and %" PRId64 " are expected", r->path,
                         (long long)status.st_size, file->bytes);
    r->sums = malloc((size_t)(blocks + 1) * sizeof(*r->sums));
    r->block = malloc(SHARD_BLOCK);
    if (!r->sums || !r->block)
        return error_set(err, "out of memory");
    posix_fadvise(r->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return check_head(r, file, blocks, err);
}

struct shard_reader *shard_reader_open(const char *directory, const struct index_file *file,
                                       int arrays, struct error *err)
{
    struct shard_reader *r = calloc(1, sizeof(*r));

    if (!r) {
        error_set(err, "out of memory");
        return NULL;
    }
    r->fd = r->number = -1;
    r->data = file->data;
    r->elements = file->elements;
    r->bytes = file->elements * 4 * arrays;
    if (directory_path(r->path, err, "%s/%s", directory, file->name) < 0 ||
        open_reader(r, file, err) < 0) {
        shard_reader_close(r);
        return NULL;
    }
    return r;
}

void shard_reader_close(struct shard_reader *r)
{
    if (!r)
        return;
    if (r->fd >= 0)
        close(r->fd);
    threads_destroy(r->threads);
    free(r->sums);
    free(r->block);
    free(r);
}

static size_t size_of_block(const struct shard_reader *r, int64_t number)
{
    int64_t left = r->bytes - number * (int64_t)SHARD_BLOCK;

    return left < (int64_t)SHARD_BLOCK ? (size_t)left : SHARD_BLOCK;
}

/* Read a whole block to 'out', as it was written. */
static int read_block(struct shard_reader *r, int64_t number, void *out, struct error *err)
{
    int64_t first = number * (int64_t)SHARD_BLOCK;
    size_t size = size_of_block(r, number);

    if (read_bytes(r, out, size, r->data + first, err) < 0)
        return -1;
    if (checksum_of(out, size) != r->sums[number])
        return error_set(err, "%s is damaged within bytes %" PRId64 " to %" PRId64, r->path,
                         r->data + first, r->data + first + (int64_t)size - 1);
    return 0;
}

/* Have block 'number' in memory. */
static int load_block(struct shard_reader *r, int64_t number, struct error *err)
{
    if (r->number == number)
        return 0;
    r->number = -1;
    if (read_block(r, number, r->block, err) < 0)
        return -1;
    r->size = size_of_block(r, number);
    r->number = number;
    return 0;
}

/* --- Many blocks, by several threads ---------------------------------------------------------- */

struct many {
    struct shard_reader *reader;
    int64_t first, count;
    char *out; /* NULL: they are only checked */
    atomic_int_fast64_t next;
    atomic_int failed;
    struct error failures[READERS_MOST];
};

/* One of the threads: takes block after block. */
static void read_some(void *context, int64_t thread)
{
    struct many *m = context;
    char *block = m->out ? NULL : malloc(SHARD_BLOCK);
    int64_t i;
    int rc = m->out || block ? 0 : error_set(&m->failures[thread], "out of memory");

    while (rc == 0 && !m->failed && (i = atomic_fetch_add(&m->next, 1)) < m->count)
        rc = read_block(m->reader, m->first + i, m->out ? m->out + i * (int64_t)SHARD_BLOCK : block,
                        &m->failures[thread]);
    if (rc < 0)
        m->failed = 1;
    free(block);
}

static int read_many(struct shard_reader *r, int64_t first, int64_t count, void *out,
                     struct error *err)
{
    struct many m = {.reader = r, .first = first, .count = count, .out = out};
    cpu_set_t cores;
    int readers = READERS_MOST;

    if (!r->threads && count > 1) {
        if (sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) < readers)
            readers = CPU_COUNT(&cores);
        r->threads = threads_create(readers, err);
        if (!r->threads)
            return -1;
    }
    if (count > 1)
        threads_run(r->threads, threads_count(r->threads), read_some, &m);
    else if (count == 1)
        read_some(&m, 0);
    for (int i = 0; i < READERS_MOST && m.failed; i++)
        if (m.failures[i].text[0] != '\0') {
            *err = m.failures[i];
            break;
        }
    return m.failed ? -1 : 0;
}

int shard_reader_get(struct shard_reader *r, int array, int64_t first, int64_t count, float *out,
                     struct error *err)
{
    int64_t at = (array * r->elements + first) * 4, end = at + count * 4;

    if (first < 0 || count < 0 || first + count > r->elements || end > r->bytes)
        return error_set(err, "%s does not hold that many elements", r->path);
    while (at < end) {
        int64_t number = at / (int64_t)SHARD_BLOCK, whole = (end - at) / (int64_t)SHARD_BLOCK;
        size_t within = (size_t)(at % (int64_t)SHARD_BLOCK), part;

        if (within == 0 && whole > 0) {
            part = (size_t)whole * SHARD_BLOCK;
            if (read_many(r, number, whole, out, err) < 0)
                return -1;
        } else {
            if (load_block(r, number, err) < 0)
                return -1;
            part = r->size - within < (size_t)(end - at) ? r->size - within : (size_t)(end - at);
            memcpy(out, r->block + within, part);
        }
        out += part / 4;
        at += (int64_t)part;
    }
    return 0;
}

int shard_reader_verify(struct shard_reader *r, struct error *err)
{
    return read_many(r, 0, shard_blocks(r->bytes), NULL, err);
}
