/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "extract.h"
#include "base/core/log.h"
#include "base/core/threads.h"
#include "base/core/list.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* Pieces are so large on disk that the block that two of them share costs little. */
static const int64_t piece_packed = 8 << 20, piece_plain = 32 << 20;
/* The unit of output, and how much of a piece waits in memory for its turn. */
static const size_t write_size = (size_t)1 << 20, waiting_limit = (size_t)64 << 20;

struct extract {
    const struct extract_config *config;
    struct wiki_counts *counts;
    LIST(struct segment) segments;
    int fd;
    const char *name;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t turn; /* the segment whose turn it is */
    int failed;
    struct error err; /* of the first failed piece */
    int64_t shown, shown_unclosed;
};

/* A segment in progress. */
struct piece {
    struct extract *extract;
    int64_t number;
    struct wiki_buffer waiting;
};

/* --- The segments ----------------------------------------------------------------------------- */

static void cut_files(struct extract *extract)
{
    const struct corpus_files *files = extract->config->files;

    for (size_t i = 0; i < files->count; i++) {
        const struct corpus_file *file = &files->items[i];
        int64_t target = file->codec == CODEC_PLAIN ? piece_plain : piece_packed, pieces = 1;

        if (file->size > target && source_can_cut(file->path, file->codec, file->size))
            pieces = (file->size + target - 1) / target;
        for (int64_t k = 0; k < pieces; k++) {
            *list_add(&extract->segments) =
                (struct segment){(uint32_t)i, file->size / pieces * k,
                                 k + 1 == pieces ? SOURCE_TO_END : file->size / pieces * (k + 1)};
        }
    }
}

/* --- Output ----------------------------------------------------------------------------------- */

/* Wait for the turn of this piece. Returns 0, or -1 with the error of a piece that has failed. */
static int await_turn(struct piece *piece, struct error *err)
{
    struct extract *extract = piece->extract;
    int failed;

    pthread_mutex_lock(&extract->lock);
    while (extract->turn != piece->number && !extract->failed)
        pthread_cond_wait(&extract->changed, &extract->lock);
    failed = extract->failed;
    if (failed)
        *err = extract->err;
    pthread_mutex_unlock(&extract->lock);
    return failed ? -1 : 0;
}

static int is_turn(struct piece *piece)
{
    struct extract *extract = piece->extract;
    int answer;

    pthread_mutex_lock(&extract->lock);
    answer = extract->turn == piece->number;
    pthread_mutex_unlock(&extract->lock);
    return answer;
}

static int write_out(struct piece *piece, struct error *err)
{
    struct wiki_buffer *waiting = &piece->waiting;
    size_t at = 0;

    if (await_turn(piece, err) < 0)
        return -1;
    while (at < waiting->size) {
        ssize_t count = write(piece->extract->fd, waiting->data + at, waiting->size - at);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return error_set_errno(err, errno, "cannot write %s", piece->extract->name);
        at += (size_t)count;
    }
    wiki_buffer_reset(waiting);
    return 0;
}

static int take_lines(void *context, struct wiki_span lines, struct error *err)
{
    struct piece *piece = context;

    wiki_put(&piece->waiting, lines.data, lines.size);
    if (piece->waiting.size < write_size ||
        (piece->waiting.size < waiting_limit && !is_turn(piece)))
        return 0;
    return write_out(piece, err);
}

static void show_some(struct extract *extract, int64_t *shown, const char *sentence)
{
    int64_t before;

    pthread_mutex_lock(&extract->lock);
    before = (*shown)++;
    pthread_mutex_unlock(&extract->lock);
    if (before < WIKI_LINES_SHOWN)
        log_warning("%s", sentence);
}

static void warn(void *context, const char *sentence)
{
    struct extract *extract = ((struct piece *)context)->extract;

    show_some(extract, &extract->shown, sentence);
}

static void tell_unclosed(void *context, const char *sentence)
{
    struct extract *extract = ((struct piece *)context)->extract;

    show_some(extract, &extract->shown_unclosed, sentence);
}

static void tell_flaw(void *context, const char *sentence)
{
    (void)context;
    log_warning("%s", sentence);
}

static int do_piece(void *context, int64_t number, struct error *err)
{
    struct extract *extract = context;
    const struct extract_config *config = extract->config;
    struct piece piece = {.extract = extract, .number = number};
    struct wiki_lines lines = {.files = config->files,
                               .segments = &extract->segments.items[number],
                               .count = 1,
                               .wiki = &config->wiki,
                               .max_page = (size_t)config->max_page,
                               .strict = config->strict,
                               .take = take_lines,
                               .warn = warn,
                               .unclosed = tell_unclosed,
                               .flaw = tell_flaw,
                               .context = &piece};
    struct wiki_counts counts = {0};
    int rc = wiki_lines_read(&lines, &counts, err);

    if (rc == 0)
        rc = write_out(&piece, err);
    wiki_buffer_clear(&piece.waiting);
    pthread_mutex_lock(&extract->lock);
    if (rc < 0 && !extract->failed)
        extract->err = *err;
    if (rc < 0)
        extract->failed = 1;
    else
        extract->turn = number + 1;
    wiki_counts_add(extract->counts, &counts);
    pthread_cond_broadcast(&extract->changed);
    pthread_mutex_unlock(&extract->lock);
    return rc;
}

int extract(const struct extract_config *config, int fd, const char *name,
            struct wiki_counts *counts, struct error *err)
{
    struct extract extract = {.config = config, .counts = counts, .fd = fd, .name = name};
    int rc;

    memset(counts, 0, sizeof(*counts));
    pthread_mutex_init(&extract.lock, NULL);
    pthread_cond_init(&extract.changed, NULL);
    cut_files(&extract);
    rc = threads_loop(config->threads, (int64_t)extract.segments.count, do_piece, &extract, err);
    list_free(&extract.segments);
    pthread_mutex_destroy(&extract.lock);
    pthread_cond_destroy(&extract.changed);
    return rc;
}
