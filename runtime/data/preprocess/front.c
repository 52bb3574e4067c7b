/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "front.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The size of a write. With O_DIRECT, addresses, positions and sizes are multiples of UNIT. */
enum { BUFFER_SIZE = 1 << 20, UNIT = 4096, HUGE_PAGE = 2 << 20 };

int front_path(const struct work *work, size_t key, char *path, struct error *err)
{
    return disk_path(path, err, "%.4000s/front-%zu.bin", work->base, key);
}

/* Allocate all buffers, in huge pages, because the kernel pins every page of a direct write. */
static char *new_buffers(size_t count, struct error *err)
{
    size_t size = (count * BUFFER_SIZE + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
    char *buffers = aligned_alloc(HUGE_PAGE, size);

    if (!buffers)
        error_set(err, "out of memory");
    else
        madvise(buffers, size, MADV_HUGEPAGE);
    return buffers;
}

static size_t round_up(size_t size)
{
    return (size + UNIT - 1) & ~(size_t)(UNIT - 1);
}

/* --- The thread that writes ------------------------------------------------------------------- */

/* Set or clear O_DIRECT. */
static int set_direct(int fd, int direct)
{
    int flags = fcntl(fd, F_GETFL), wanted = direct ? flags | O_DIRECT : flags & ~O_DIRECT;

    if (flags < 0)
        return -1;
    return wanted == flags ? 0 : fcntl(fd, F_SETFL, wanted);
}

/* Write the range [begin, end) of the buffer. */
static int write_piece(struct front *front, size_t begin, size_t end, int direct, struct error *err)
{
    struct front_file *file = &front->files[front->key];
    const char *data = front->buffer + begin;
    int64_t at = front->at + (int64_t)begin;
    char path[DISK_PATH];

    if (begin == end)
        return 0;
    if (front_path(front->work, front->key, path, err) < 0)
        return -1;
    if (set_direct(file->fd, direct && file->direct) < 0)
        return error_set_errno(err, errno, "cannot write %s", path);
    if (disk_pwrite(file->fd, data, end - begin, at, path, err) == 0)
        return 0;
    /* A file system may accept the flag, but not the write. */
    if (errno != EINVAL || !direct || !file->direct || set_direct(file->fd, 0) < 0)
        return -1;
    file->direct = 0;
    return disk_pwrite(file->fd, data, end - begin, at, path, err);
}

/* Only complete units bypass the page cache. The rest of the first and last unit is not touched: it
 * may belong to another chunk, or be beyond the end of a complete output. */
static int write_buffer(struct front *front, struct error *err)
{
    size_t end = front->size, head = round_up(front->from), tail = end & ~(size_t)(UNIT - 1);

    if (head > tail)
        return write_piece(front, front->from, end, 0, err);
    if (write_piece(front, front->from, head, 0, err) < 0 ||
        write_piece(front, head, tail, 1, err) < 0)
        return -1;
    return write_piece(front, tail, end, 0, err);
}

static void *write_thread(void *argument)
{
    struct front *front = argument;
    struct error err;

    pthread_mutex_lock(&front->lock);
    while (!front->stop) {
        if (front->size == 0) {
            pthread_cond_wait(&front->changed, &front->lock);
            continue;
        }
        pthread_mutex_unlock(&front->lock);
        if (write_buffer(front, &err) < 0) {
            front->err = err;
            front->failed = 1;
        }
        pthread_mutex_lock(&front->lock);
        front->size = 0;
        pthread_cond_broadcast(&front->changed);
    }
    pthread_mutex_unlock(&front->lock);
    return NULL;
}

/* With the lock held: wait until the writer is idle. */
static int await_writer(struct front *front, struct error *err)
{
    while (front->size > 0)
        pthread_cond_wait(&front->changed, &front->lock);
    if (front->failed)
        *err = front->err;
    return front->failed ? -1 : 0;
}

/* Hand the buffer of a key to the writer, and get an empty one. */
static int hand_over(struct front *front, size_t key, struct error *err)
{
    struct front_file *file = &front->files[key];
    char *buffer;
    int rc;

    pthread_mutex_lock(&front->lock);
    rc = await_writer(front, err);
    if (rc == 0) {
        buffer = front->buffer;
        front->buffer = file->buffer;
        file->buffer = buffer;
        front->key = key;
        front->at = file->begin;
        front->from = file->from;
        front->size = file->fill;
        pthread_cond_broadcast(&front->changed);
    }
    pthread_mutex_unlock(&front->lock);
    return rc;
}

/* --- Tokens ----------------------------------------------------------------------------------- */

/* Write the buffer, and continue at the next unit. */
static int flush_file(struct front *front, size_t key, struct error *err)
{
    struct front_file *file = &front->files[key];

    if (file->fill > file->from && hand_over(front, key, err) < 0)
        return -1;
    file->begin += (int64_t)round_up(file->fill);
    file->from = file->fill = 0;
    return 0;
}

/* Continue at another position. */
static int move_file(struct front *front, size_t key, int64_t at, struct error *err)
{
    struct front_file *file = &front->files[key];

    if (flush_file(front, key, err) < 0)
        return -1;
    file->begin = at & ~(int64_t)(UNIT - 1);
    file->from = file->fill = (size_t)(at - file->begin);
    return 0;
}

int front_write(struct front *front, size_t key, int64_t token, const struct token_buffer *tokens,
                struct error *err)
{
    struct front_file *file = &front->files[key];
    int64_t at = token * (int64_t)front->id_size;
    size_t left = tokens->count * front->id_size;
    const char *from = tokens->ids;

    if (at != file->begin + (int64_t)file->fill && move_file(front, key, at, err) < 0)
        return -1;
    while (left > 0) {
        size_t count = BUFFER_SIZE - file->fill < left ? BUFFER_SIZE - file->fill : left;

        memcpy(file->buffer + file->fill, from, count);
        file->fill += count;
        from += count;
        left -= count;
        if (file->fill == BUFFER_SIZE && flush_file(front, key, err) < 0)
            return -1;
    }
    return 0;
}

int front_flush(struct front *front, struct error *err)
{
    int rc = 0;

    if (!front->open)
        return 0;
    for (size_t k = 0; k < front->keys; k++)
        if (flush_file(front, k, err) < 0)
            return -1;
    pthread_mutex_lock(&front->lock);
    rc = await_writer(front, err);
    pthread_mutex_unlock(&front->lock);
    return rc;
}

/* --- The whole -------------------------------------------------------------------------------- */

static int open_file(struct front *front, size_t key, struct error *err)
{
    struct front_file *file = &front->files[key];
    char path[DISK_PATH];

    if (front_path(front->work, key, path, err) < 0)
        return -1;
    file->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_DIRECT, 0666);
    file->direct = file->fd >= 0;
    if (file->fd < 0 && errno == EINVAL)
        file->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file->fd < 0)
        return error_set_errno(err, errno, "cannot create %s", path);
    file->buffer = front->buffers + key * BUFFER_SIZE;
    front->keys++;
    return 0;
}

int front_open(struct front *front, const struct preprocess_config *config, struct work *work,
               struct board *board, size_t id_size, struct error *err)
{
    int rc;

    if (front->open || work->world->size > 1 || config->shards > 1 || config->max_documents > 0)
        return 0;
    front->work = work;
    front->board = board;
    front->id_size = id_size;
    front->open = 1;
    pthread_mutex_init(&front->lock, NULL);
    pthread_cond_init(&front->changed, NULL);
    front->buffers = new_buffers(config->key_count + 1, err);
    if (!front->buffers)
        return -1;
    while (front->keys < config->key_count)
        if (open_file(front, front->keys, err) < 0)
            return -1;
    front->buffer = front->buffers + config->key_count * BUFFER_SIZE;
    rc = pthread_create(&front->writer, NULL, write_thread, front);
    front->writing = rc == 0;
    if (!front->writing)
        return error_set_errno(err, rc, "cannot start a thread");
    return front_pass(front, front->next, err);
}

void front_close(struct front *front)
{
    if (!front->open)
        return;
    pthread_mutex_lock(&front->lock);
    front->stop = 1;
    pthread_cond_broadcast(&front->changed);
    pthread_mutex_unlock(&front->lock);
    if (front->writing)
        pthread_join(front->writer, NULL);
    for (size_t k = 0; k < front->keys; k++)
        close(front->files[k].fd);
    free(front->buffers);
    pthread_mutex_destroy(&front->lock);
    pthread_cond_destroy(&front->changed);
    memset(front, 0, sizeof(*front));
}

int front_at(const struct front *front, size_t chunk)
{
    return front->open && front->next == chunk;
}

int front_pass(struct front *front, size_t chunk, struct error *err)
{
    struct part_reader *part;
    int torn;

    if (!front_at(front, chunk))
        return 0;
    while (front->next < front->board->count && board_is_done(front->board, front->next)) {
        part = output_layout_open_part(front->work, front->board, front->next, front->keys,
                                       front->id_size, &torn, err);
        /* Another chunk may be waiting for the position after a chunk that was just made. */
        if (!part && (!torn || front->board->jobs[front->next].made))
            return -1;
        /* The layout job will find and report the damage; until then no position is known. */
        if (!part) {
            front->next = front->board->count;
            return 0;
        }
        position_add(&front->position, part_totals(part), front->keys);
        part_close(part);
        front->next++;
    }
    return 0;
}
