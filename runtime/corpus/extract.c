/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "extract.h"
#include "log.h"
#include "mediawiki.h"
#include "records.h"
#include "remedy.h"
#include "threads.h"
#include "wiki_site.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

/* A piece of a file is so large on disk that the block that two pieces share costs little. */
static const int64_t piece_packed = 8 << 20, piece_plain = 32 << 20;
enum {
    BLOCK_SIZE = 256 << 10,
    FRAME_SIZE = 4 << 20, /* text that is compressed at a time */
    LEVEL = 3,
    FAULTS_SHOWN = 20
};
/* What waits for its turn; more of it is not made before. */
static const size_t waiting_limit = (size_t)64 << 20;

struct extract {
    const struct extract_config *config;
    struct extract_counts *counts;
    struct segment *segments;
    size_t count;
    int fd;
    const char *name;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t turn; /* the segment that may be written */
    int failed;
    struct error err; /* of the first piece that failed */
    int64_t shown;
};

/* One segment in the making. */
struct piece {
    struct extract *extract;
    int64_t number;
    struct wikitext *wikitext;
    struct record_reader *reader;
    struct wiki_buffer text, packed;
    struct extract_counts counts;
};

/* --- The segments ----------------------------------------------------------------------------- */

static int cut_files(struct extract *extract, struct error *err)
{
    const struct corpus_files *files = extract->config->files;
    size_t room = 0;

    for (size_t i = 0; i < files->count; i++) {
        const struct corpus_file *file = &files->items[i];
        int64_t target = file->codec == CODEC_PLAIN ? piece_plain : piece_packed, pieces = 1;

        if (file->size > target && source_can_cut(file->path, file->codec, file->size))
            pieces = (file->size + target - 1) / target;
        for (int64_t k = 0; k < pieces; k++) {
            if (extract->count == room) {
                struct segment *segments;

                room = room ? room * 2 : 64;
                segments = realloc(extract->segments, room * sizeof(*segments));
                if (!segments)
                    return error_set(err, "out of memory");
                extract->segments = segments;
            }
            extract->segments[extract->count++] =
                (struct segment){(uint32_t)i, file->size / pieces * k,
                                 k + 1 == pieces ? SOURCE_TO_END : file->size / pieces * (k + 1)};
        }
    }
    return 0;
}

/* --- Output ----------------------------------------------------------------------------------- */

/* Until it is the piece's turn. Returns 0, or -1 with the error of a piece that has failed. */
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

static int write_out(struct piece *piece, struct wiki_buffer *buffer, struct error *err)
{
    size_t at = 0;

    while (at < buffer->size) {
        ssize_t count = write(piece->extract->fd, buffer->data + at, buffer->size - at);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return error_set_errno(err, errno, "cannot write %s", piece->extract->name);
        at += (size_t)count;
    }
    buffer->size = 0;
    return 0;
}

/* Compress the text as a frame of its own behind those before it. */
static int pack(struct piece *piece, struct error *err)
{
#ifdef HAVE_ZSTD
    struct wiki_buffer *text = &piece->text, *packed = &piece->packed;
    size_t bound = ZSTD_compressBound(text->size), size;

    if (text->size == 0)
        return 0;
    if (packed->capacity - packed->size < bound && wiki_buffer_grow(packed, bound) < 0)
        return error_set(err, "out of memory");
    size = ZSTD_compress(packed->data + packed->size, bound, text->data, text->size, LEVEL);
    if (ZSTD_isError(size))
        return error_set(err, "cannot compress: %s", ZSTD_getErrorName(size));
    packed->size += size;
    text->size = 0;
    return 0;
#else
    (void)piece;
    return error_set(err, "this build cannot write zstd; install libzstd-dev and build again");
#endif
}

/* Move on what was made: compressed, and written if it may be. 'end': all of it. */
static int pass_on(struct piece *piece, int end, struct error *err)
{
    struct wiki_buffer *ready = piece->extract->config->zstd ? &piece->packed : &piece->text;

    if (piece->text.failed || piece->packed.failed)
        return error_set(err, "out of memory");
    if (!end && piece->text.size < FRAME_SIZE)
        return 0;
    if (piece->extract->config->zstd && pack(piece, err) < 0)
        return -1;
    if (!end && ready->size < waiting_limit && !is_turn(piece))
        return 0;
    if (await_turn(piece, err) < 0)
        return -1;
    return write_out(piece, ready, err);
}

/* --- Pages ------------------------------------------------------------------------------------ */

static void put_json(struct wiki_buffer *out, struct wiki_span text)
{
    static const char letters[32] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};

    wiki_put_char(out, '"');
    for (size_t at = 0; at < text.size;) {
        size_t from = at;
        unsigned char c;
        char escape[8];

        while (at < text.size && (unsigned char)text.data[at] >= ' ' && text.data[at] != '"' &&
               text.data[at] != '\\')
            at++;
        wiki_put(out, text.data + from, at - from);
        if (at == text.size)
            break;
        c = (unsigned char)text.data[at++];
        if (c >= ' ' || letters[c]) {
            wiki_put_char(out, '\\');
            wiki_put_char(out, c >= ' ' ? (char)c : letters[c]);
            continue;
        }
        snprintf(escape, sizeof(escape), "\\u%04x", c);
        wiki_put_text(out, escape);
    }
    wiki_put_char(out, '"');
}

static void put_document(struct wiki_buffer *out, const struct wiki_document *document,
                         const struct wiki_site *site)
{
    char text[512];

    snprintf(text, sizeof(text),
             "{\"id\": \"%lld\", \"revid\": \"%lld\", \"url\": ", (long long)document->id,
             (long long)document->revision);
    wiki_put_text(out, text);
    snprintf(text, sizeof(text), "%s?curid=%lld", wiki_site_base(site), (long long)document->id);
    put_json(out, wiki_span(text, strlen(text)));
    wiki_put_text(out, ", \"title\": ");
    put_json(out, document->title);
    wiki_put_text(out, ", \"text\": ");
    put_json(out, document->text);
    wiki_put_text(out, "}\n");
}

/* A broken page: an error if they are not passed over, else one line, the first times. */
static int tell_fault(struct piece *piece, enum document_fault fault, struct wiki_span title,
                      int64_t place, struct error *err)
{
    struct extract *extract = piece->extract;
    const struct segment *segment = &extract->segments[piece->number];
    const struct corpus_file *file = &extract->config->files->items[segment->file];
    const char *unit = file->codec == CODEC_PLAIN ? "byte" : "decompressed byte";
    char where[64] = "";
    int64_t shown;

    if (file->codec == CODEC_PLAIN)
        place += segment->begin;
    else if (segment->begin > 0)
        snprintf(where, sizeof(where), " after byte %lld", (long long)segment->begin);
    if (extract->config->strict) {
        error_set(err, "%s: page \"%.*s\" at %s %lld%s: %s", file->path,
                  title.size < 200 ? (int)title.size : 200, title.data ? title.data : "", unit,
                  (long long)place, where, document_fault_text(fault));
        return error_remedy(err, REMEDY_STRICT);
    }
    pthread_mutex_lock(&extract->lock);
    shown = extract->shown++;
    pthread_mutex_unlock(&extract->lock);
    if (shown < FAULTS_SHOWN)
        log_warning("%s: page \"%.*s\" at %s %lld%s: %s; skipped", file->path,
                    title.size < 200 ? (int)title.size : 200, title.data ? title.data : "", unit,
                    (long long)place, where, document_fault_text(fault));
    return 0;
}

static int take_block(struct piece *piece, const struct record_block *block, struct error *err)
{
    struct record_cursor cursor = {0, 0};
    struct record record;
    int rc = 0;

    if (block->too_long) {
        struct wiki_page page;

        mediawiki_page(block->data, block->head, &page);
        piece->counts.faults[FAULT_LENGTH]++;
        return tell_fault(piece, FAULT_LENGTH, page.title, block->first_line, err);
    }
    piece->counts.bytes += block->lines;
    while (rc == 0 && record_next(RECORD_PAGE, block, &cursor, &record)) {
        struct wiki_document document;
        enum document_fault fault =
            wikitext_page(piece->wikitext, record.data, record.size, block->site, &document);

        if (fault != FAULT_NONE) {
            piece->counts.faults[fault]++;
            if (fault < FAULT_BROKEN_END)
                rc = tell_fault(piece, fault, document.title, block->first_line + record.line, err);
            continue;
        }
        piece->counts.documents++;
        put_document(&piece->text, &document, block->site);
        rc = pass_on(piece, 0, err);
        if (record.size > 4 << 20)
            wikitext_trim(piece->wikitext);
    }
    return rc;
}

static int read_piece(struct piece *piece, struct error *err)
{
    struct record_block block = {0};
    int rc = 1;

    while (rc > 0 && (rc = record_reader_next(piece->reader, &block, err)) > 0) {
        const char *flaw = record_reader_flaw(piece->reader);

        if (take_block(piece, &block, err) < 0) {
            rc = -1;
        } else if (flaw && piece->extract->config->strict) {
            error_set(err, "%s", flaw);
            rc = error_remedy(err, REMEDY_STRICT);
        } else if (flaw) {
            log_warning("%s", flaw);
        }
    }
    record_block_clear(&block);
    return rc;
}

static void add_counts(struct extract_counts *sum, const struct extract_counts *more)
{
    sum->documents += more->documents;
    sum->bytes += more->bytes;
    for (int i = 0; i < FAULT_COUNT; i++)
        sum->faults[i] += more->faults[i];
}

static int do_piece(void *context, int64_t number, struct error *err)
{
    struct extract *extract = context;
    struct piece piece = {.extract = extract, .number = number};
    int rc = -1;

    piece.wikitext = wikitext_create(&extract->config->wiki, err);
    if (piece.wikitext)
        piece.reader =
            record_reader_create(extract->config->files, &extract->segments[number], 1, RECORD_PAGE,
                                 BLOCK_SIZE, (size_t)extract->config->max_page, err);
    if (piece.reader)
        rc = read_piece(&piece, err);
    if (rc == 0)
        rc = pass_on(&piece, 1, err);
    record_reader_destroy(piece.reader);
    wikitext_destroy(piece.wikitext);
    wiki_buffer_clear(&piece.text);
    wiki_buffer_clear(&piece.packed);
    pthread_mutex_lock(&extract->lock);
    if (rc < 0 && !extract->failed)
        extract->err = *err;
    if (rc < 0)
        extract->failed = 1;
    else
        extract->turn = number + 1;
    add_counts(extract->counts, &piece.counts);
    pthread_cond_broadcast(&extract->changed);
    pthread_mutex_unlock(&extract->lock);
    return rc;
}

int extract(const struct extract_config *config, int fd, const char *name,
            struct extract_counts *counts, struct error *err)
{
    struct extract extract = {.config = config, .counts = counts, .fd = fd, .name = name};
    int rc;

    memset(counts, 0, sizeof(*counts));
    if (!config->files->sites)
        config->files->sites = wiki_sites_create(config->files->count, err);
    if (!config->files->sites)
        return -1;
    pthread_mutex_init(&extract.lock, NULL);
    pthread_cond_init(&extract.changed, NULL);
    rc = cut_files(&extract, err);
    if (rc == 0)
        rc = threads_loop(config->threads, (int64_t)extract.count, do_piece, &extract, err);
    free(extract.segments);
    pthread_mutex_destroy(&extract.lock);
    pthread_cond_destroy(&extract.changed);
    return rc;
}
