#include "config.h"
#include "front.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* So much is handed to the disk at a time, while the work goes on. */
static const int64_t sync_size = 8 << 20;

int front_path(const struct work *work, size_t key, char *path, struct error *err)
{
    return disk_path(path, err, "%.4000s/front-%zu.bin", work->base, key);
}

int front_open(struct front *front, const struct preprocess_config *config, struct work *work,
               struct board *board, size_t id_size, struct error *err)
{
    char path[DISK_PATH];

    if (front->open || work->world->size > 1 || config->shards > 1 || config->max_documents > 0)
        return 0;
    front->work = work;
    front->board = board;
    front->id_size = id_size;
    front->open = 1;
    for (front->keys = 0; front->keys < config->key_count; front->keys++) {
        if (front_path(work, front->keys, path, err) < 0)
            return -1;
        front->fds[front->keys] = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (front->fds[front->keys] < 0)
            return error_set_errno(err, errno, "cannot create %s", path);
    }
    front_pass(front, front->next);
    return 0;
}

void front_close(struct front *front)
{
    for (size_t k = 0; k < front->keys; k++)
        close(front->fds[k]);
    memset(front, 0, sizeof(*front));
}

int front_at(const struct front *front, size_t chunk)
{
    return front->open && front->next == chunk;
}

int front_write(struct front *front, size_t key, int64_t token, const struct token_buffer *tokens,
                struct error *err)
{
    int64_t at = token * (int64_t)front->id_size, size = (int64_t)(tokens->count * front->id_size);
    char path[DISK_PATH];

    if (front_path(front->work, key, path, err) < 0 ||
        disk_pwrite(front->fds[key], tokens->ids, (size_t)size, at, path, err) < 0)
        return -1;
    /* Only so that less is left for the end: the result does not matter. */
    if (at + size - front->unsynced[key] >= sync_size) {
        sync_file_range(front->fds[key], front->unsynced[key], at + size - front->unsynced[key],
                        SYNC_FILE_RANGE_WRITE);
        front->unsynced[key] = at + size;
    }
    return 0;
}

void front_pass(struct front *front, size_t chunk)
{
    struct part_reader *part;
    int torn;

    if (!front_at(front, chunk))
        return;
    while (front->next < front->board->count && board_is_done(front->board, front->next)) {
        part = places_open_part(front->work, front->board, front->next, front->keys, front->id_size,
                                &torn, NULL);
        /* Whoever makes the layout will find it and say so; until then nothing has a place. */
        if (!part) {
            front->next = front->board->count;
            return;
        }
        place_add(&front->place, part_totals(part), front->keys);
        part_close(part);
        front->next++;
    }
}
