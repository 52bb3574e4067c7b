/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "chunk.h"
#include "base/core/log.h"
#include "base/core/threads.h"
#include "base/core/xmalloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Limit on the total memory of decompressors with large windows, and likewise on that of blocks
 * with long lines. */
static const size_t memory_limit = (size_t)192 << 20;
/* Limits on the encoder caches of all threads together and of each. */
static const size_t caches_limit = (size_t)256 << 20, cache_limit = (size_t)24 << 20;

struct worker {
    struct encode *encode;
    struct block_encoder with;
    struct chunk *mine;
    struct error err;
};

/* In strict mode: the first fault found so far, in input order. */
struct first_fault {
    size_t chunk;  /* SIZE_MAX: none */
    int64_t block; /* of the chunk */
    struct part_fault document;
    struct error file; /* the fault of a file; if empty, it is a document's */
};

struct encode_pool {
    pthread_mutex_t lock, long_lock, redo_lock;
    pthread_cond_t changed;
    struct worker *workers;
    struct block *blocks, *free;
    size_t block_count;
    struct chunk *chunks; /* open chunks */
    size_t memory;        /* approximate memory of the readers */
    size_t opening;       /* threads that are opening or closing a chunk */
    size_t held;          /* memory of blocks with long lines */
    size_t reading;       /* threads that are reading a block */
    size_t expected;      /* expected memory of the next block; 0: no long lines */
    int no_more, failed;
    const size_t *first; /* a chunk that is already claimed; or NULL */
    bool only_first;
    struct first_fault fault;
    struct error err;
};

/* --- The pool --------------------------------------------------------------------------------- */

static int fail(struct encode_pool *pool, const struct error *err)
{
    pthread_mutex_lock(&pool->lock);
    if (!pool->failed)
        pool->err = *err;
    pool->failed = 1;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    return -1;
}

/* One block is always admitted, and completes without other threads. */
static bool has_room(const struct encode_pool *pool)
{
    return (pool->held == 0 && pool->reading == 0) ||
           pool->held + (pool->reading + 1) * pool->expected <= memory_limit;
}

/* Chunks after the first fault of strict mode are not needed. */
static bool is_needed(const struct encode_pool *pool, const struct chunk *chunk)
{
    return chunk->number < pool->fault.chunk;
}

static bool has_needed(const struct encode_pool *pool)
{
    for (const struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        if (is_needed(pool, chunk))
            return true;
    return false;
}

static bool can_read(const struct encode_pool *pool, const struct chunk *chunk)
{
    return is_needed(pool, chunk) && !chunk->reading && !chunk->input_done && pool->free &&
           has_room(pool) && chunk->next_read - chunk->next_write < (int64_t)pool->block_count;
}

/* With the lock held: account for the memory of a block that was read. The expectation of long
 * lines decays with each short block. */
static void hold_block(struct encode_pool *pool, struct block *block)
{
    block->held = block->records.capacity > BLOCK_LONG_LINE ? block->records.capacity : 0;
    pool->held += block->held;
    pool->expected = block->held ? block->held : pool->expected / 2;
    if (pool->expected < BLOCK_LONG_LINE)
        pool->expected = 0;
}

/* With the lock held: return blocks to the free list, and free the memory of huge documents. */
static void free_blocks(struct encode_pool *pool, struct block *freed, size_t keys)
{
    while (freed) {
        struct block *next = freed->next;

        pool->held -= freed->held;
        if (freed->held)
            record_block_clear(&freed->records);
        freed->held = 0;
        block_reset(freed, keys);
        freed->next = pool->free;
        pool->free = freed;
        freed = next;
    }
}

/* Open another chunk. Called with the lock held, and returns with it. Returns the chunk, or
 * NULL. */
static struct chunk *open_another(struct worker *worker)
{
    struct encode *encode = worker->encode;
    struct encode_pool *pool = encode->pool;
    const size_t *first = pool->first;
    struct chunk *chunk = NULL;
    size_t number = 0;
    int rc = 1;

    if (first && pool->only_first)
        pool->no_more = 1;
    pool->first = NULL;
    pool->opening++;
    pthread_mutex_unlock(&pool->lock);
    if (first)
        number = *first;
    else if (encode->config->max_documents > 0 &&
             board_scan(encode->phase->board, &worker->err) < 0)
        rc = -1;
    else
        rc = jobs_claim(encode->phase, &number, &worker->err);
    if (rc > 0)
        chunk = chunk_open(encode, number, &worker->err);
    if (rc < 0 || (rc > 0 && !chunk))
        fail(pool, &worker->err);
    pthread_mutex_lock(&pool->lock);
    pool->opening--;
    if (chunk) {
        chunk->next = pool->chunks;
        pool->chunks = chunk;
    } else {
        pool->no_more = 1;
    }
    pthread_cond_broadcast(&pool->changed);
    return chunk;
}

/* Is the maximum number of documents reached? Then no further chunk is started. */
static int enough(const struct encode *encode)
{
    return encode->config->max_documents > 0 &&
           board_prefix(encode->phase->board, encode->config->max_documents) > 0;
}

/* Choose the chunk to read from: the thread's own, a new one, or any. Called with the lock held,
 * and returns with it. Returns NULL when nothing is left to do. */
static struct chunk *choose(struct worker *worker)
{
    struct encode *encode = worker->encode;
    struct encode_pool *pool = encode->pool;

    while (!pool->failed && !encode->stop) {
        struct chunk *chunk;

        if (worker->mine && can_read(pool, worker->mine))
            return worker->mine;
        if ((!worker->mine || worker->mine->input_done) && !pool->no_more &&
            (pool->memory < memory_limit || !pool->chunks) && (pool->first || !enough(encode))) {
            worker->mine = open_another(worker);
            continue;
        }
        for (chunk = pool->chunks; chunk; chunk = chunk->next)
            if (can_read(pool, chunk))
                return chunk;
        if (!has_needed(pool) && pool->opening == 0 && (pool->no_more || enough(encode)))
            return NULL;
        pthread_cond_wait(&pool->changed, &pool->lock);
    }
    return NULL;
}

static void forget_chunk(struct encode_pool *pool, struct chunk *chunk)
{
    for (struct chunk **at = &pool->chunks; *at; at = &(*at)->next)
        if (*at == chunk) {
            *at = chunk->next;
            break;
        }
    for (size_t i = 0; i < pool->workers[0].encode->threads; i++)
        if (pool->workers[i].mine == chunk)
            pool->workers[i].mine = NULL;
}

/* Report the faults of the chunk's files. In strict mode they are errors: returns -1. */
static int tell_flaws(const struct encode *encode, struct chunk *chunk, struct error *err)
{
    const char *flaw;

    while ((flaw = record_reader_flaw(chunk->reader))) {
        if (encode->config->strict) {
            error_set_code(err, ERROR_USAGE, "%s", flaw);
            return error_append(err, "; drop --strict to skip what is invalid");
        }
        log_warning("%s", flaw);
    }
    return 0;
}

/* With the lock held: record a fault that ends the run. The input before it is still read, so that
 * the first fault is reported. */
static void note_fault(struct encode_pool *pool, const struct first_fault *fault)
{
    struct first_fault *first = &pool->fault;

    if (fault->chunk < first->chunk ||
        (fault->chunk == first->chunk && fault->block < first->block))
        *first = *fault;
    pool->no_more = 1;
}

/* With the lock held: drop blocks after the first fault, which would wait forever. */
static void drop_unneeded(struct encode_pool *pool, size_t keys)
{
    struct block *freed = NULL;

    for (struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        if (!is_needed(pool, chunk))
            chunk_drop(chunk, &freed);
    free_blocks(pool, freed, keys);
}

/* Read the next block of 'chunk'. Called with the lock held and 'reading' set; returns with the
 * lock held. */
static int read_block(struct encode *encode, struct chunk *chunk, struct block *block,
                      struct error *err)
{
    struct encode_pool *pool = encode->pool;
    size_t before = record_reader_memory(chunk->reader), after;
    int64_t passed = record_reader_passed(chunk->reader);
    struct first_fault flaw = {.chunk = chunk->number};
    int rc, full, flawed;

    pthread_mutex_unlock(&pool->lock);
    full = chunk->full;
    rc = record_reader_next(chunk->reader, &block->records, err);
    flawed = rc >= 0 && tell_flaws(encode, chunk, &flaw.file) < 0;
    if (flawed && encode->config->max_documents > 0) {
        *err = flaw.file;
        rc = -1;
    }
    after = record_reader_memory(chunk->reader);
    block->passed = record_reader_passed(chunk->reader) - passed;
    pthread_mutex_lock(&pool->lock);
    pool->memory += after - before;
    pool->reading--;
    hold_block(pool, block);
    chunk->reading = 0;
    if (rc > 0)
        block->number = chunk->next_read++;
    flaw.block = chunk->next_read;
    if (flawed && rc >= 0)
        note_fault(pool, &flaw);
    /* It is random whether other threads have read far enough to find this. */
    if (rc < 0 && encode->config->max_documents > 0) {
        chunk->broken = 1;
        chunk->err = *err;
        rc = 0;
    }
    /* A full chunk needs no further input. */
    if (rc == 0 || full)
        chunk->input_done = 1;
    pthread_cond_broadcast(&pool->changed);
    return rc;
}

/* Encode a block and write the blocks that are due. */
static int do_block(struct worker *worker, struct chunk *chunk, struct block *block,
                    struct block **freed)
{
    struct encode *encode = worker->encode;

    if (block_encode(&worker->with, block, &worker->err) < 0)
        return chunk_place(encode, chunk->number, &block->failed, &worker->err);
    /* With a limit on documents, this one may turn out not to count. */
    if (encode->config->strict && encode->config->max_documents == 0 && block->listed_count > 0) {
        struct first_fault fault = {chunk->number, block->number, block->listed[0], {.text = ""}};

        pthread_mutex_lock(&encode->pool->lock);
        note_fault(encode->pool, &fault);
        pthread_mutex_unlock(&encode->pool->lock);
        block->next = *freed;
        *freed = block;
        return 0;
    }
    return chunk_commit(encode, chunk, block, freed, &worker->err);
}

/* Finish a complete chunk, or record why it is not complete. */
static int end_chunk(struct worker *worker, struct chunk *chunk)
{
    struct encode *encode = worker->encode;
    struct encode_pool *pool = encode->pool;

    if (!chunk->broken || chunk->full)
        return chunk_finish(encode, chunk, &worker->err);
    pthread_mutex_lock(&pool->lock);
    if (chunk->number < encode->broken) {
        encode->broken = chunk->number;
        encode->broken_err = chunk->err;
    }
    pool->no_more = 1;
    pthread_mutex_unlock(&pool->lock);
    chunk_abandon(chunk);
    return 0;
}

/* With the lock held: release a chunk, and close it if it is complete. In strict mode a chunk whose
 * file has a fault stays incomplete, although all of it is written: another run would take it for
 * faultless. */
static void leave_chunk(struct worker *worker, struct chunk *chunk)
{
    struct encode *encode = worker->encode;
    struct encode_pool *pool = encode->pool;

    if (--chunk->users > 0 || !chunk->input_done || chunk->next_write != chunk->next_read ||
        !is_needed(pool, chunk) || pool->failed || encode->stop)
        return;
    forget_chunk(pool, chunk);
    pool->memory -= record_reader_memory(chunk->reader);
    pool->opening++;
    pthread_mutex_unlock(&pool->lock);
    if (end_chunk(worker, chunk) < 0)
        fail(pool, &worker->err);
    pthread_mutex_lock(&pool->lock);
    pool->opening--;
    pthread_cond_broadcast(&pool->changed);
}

/* Worker thread. Failures are kept in the pool, because threads wait for each other. */
static int work(void *context, int64_t thread, struct error *err)
{
    struct encode *encode = context;
    struct encode_pool *pool = encode->pool;
    struct worker *worker = &pool->workers[thread];
    struct chunk *chunk;
    int failed;

    pthread_mutex_lock(&pool->lock);
    while ((chunk = choose(worker))) {
        struct block *block = pool->free, *freed = NULL;
        int rc;

        pool->free = block->next;
        chunk->reading = 1;
        chunk->users++;
        pool->reading++;
        rc = read_block(encode, chunk, block, &worker->err);
        if (rc > 0) {
            pthread_mutex_unlock(&pool->lock);
            rc = do_block(worker, chunk, block, &freed);
            if (rc < 0)
                fail(pool, &worker->err);
            pthread_mutex_lock(&pool->lock);
        } else {
            freed = block;
            block->next = NULL;
            if (rc < 0 && !pool->failed) {
                pool->err = worker->err;
                pool->failed = 1;
            }
        }
        free_blocks(pool, freed, encode->config->key_count);
        leave_chunk(worker, chunk);
        if (pool->fault.chunk != SIZE_MAX)
            drop_unneeded(pool, encode->config->key_count);
        pthread_cond_broadcast(&pool->changed);
    }
    pthread_cond_broadcast(&pool->changed);
    failed = pool->failed;
    if (failed)
        *err = pool->err;
    pthread_mutex_unlock(&pool->lock);
    return failed ? -1 : 0;
}

int encode_open(struct encode *encode, struct error *err)
{
    struct encode_pool *pool = xcalloc(1, sizeof(*pool));
    size_t cache = caches_limit / encode->threads;

    encode->pool = pool;
    encode->broken = SIZE_MAX;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_mutex_init(&pool->long_lock, NULL);
    pthread_mutex_init(&pool->redo_lock, NULL);
    pthread_cond_init(&pool->changed, NULL);
    pool->block_count = encode->threads * 2 + 2;
    pool->workers = xcalloc(encode->threads, sizeof(*pool->workers));
    pool->blocks = xcalloc(pool->block_count, sizeof(*pool->blocks));
    for (size_t i = 0; i < encode->threads; i++) {
        struct worker *worker = &pool->workers[i];

        worker->encode = encode;
        if (block_encoder_open(&worker->with, encode->config, encode->tokenizer, encode->punkt,
                               cache < cache_limit ? cache : cache_limit, &pool->long_lock,
                               err) < 0)
            return -1;
    }
    return 0;
}

void encode_close(struct encode *encode)
{
    struct encode_pool *pool = encode->pool;

    if (!pool)
        return;
    for (size_t i = 0; i < encode->threads; i++)
        block_encoder_close(&pool->workers[i].with);
    for (size_t i = 0; i < pool->block_count; i++)
        block_clear(&pool->blocks[i]);
    free(pool->workers);
    free(pool->blocks);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->long_lock);
    pthread_mutex_destroy(&pool->redo_lock);
    pthread_cond_destroy(&pool->changed);
    free(pool);
    encode->pool = NULL;
}

void encode_stop(void *context)
{
    struct encode *encode = context;

    pthread_mutex_lock(&encode->pool->lock);
    encode->stop = 1;
    pthread_cond_broadcast(&encode->pool->changed);
    pthread_mutex_unlock(&encode->pool->lock);
}

static int set_first_fault(struct encode *encode, struct error *err)
{
    const struct first_fault *fault = &encode->pool->fault;

    if (!fault->file.text[0])
        return chunk_strict(encode, fault->chunk, &fault->document, err);
    *err = fault->file;
    return -1;
}

/* Encode free chunks, or only the first one. */
static int run(struct encode *encode, const size_t *first, bool only_first, struct error *err)
{
    struct encode_pool *pool = encode->pool;
    int rc;

    pool->first = first;
    pool->only_first = only_first;
    pool->fault = (struct first_fault){.chunk = SIZE_MAX};
    pool->no_more = pool->failed = 0;
    pool->memory = pool->held = pool->reading = 0;
    /* Assume lines of the maximum length until the first blocks have been read. */
    pool->expected = (size_t)encode->config->max_line;
    pool->free = NULL;
    for (size_t i = 0; i < pool->block_count; i++) {
        pool->blocks[i].held = 0;
        pool->blocks[i].next = NULL;
        free_blocks(pool, &pool->blocks[i], encode->config->key_count);
    }
    for (size_t i = 0; i < encode->threads; i++) /* threads read each other's */
        pool->workers[i].mine = NULL;
    rc = threads_loop((int)encode->threads, (int64_t)encode->threads, work, encode, err);
    while (pool->chunks) {
        struct chunk *chunk = pool->chunks;

        pool->chunks = chunk->next;
        chunk_abandon(chunk);
    }
    return rc == 0 && pool->fault.chunk != SIZE_MAX ? set_first_fault(encode, err) : rc;
}

int encode_chunks(void *context, const size_t *first, struct error *err)
{
    struct encode *encode = context;

    /* If a chunk is broken, other ranks finish those before it; a single rank must do so itself. */
    if (!first && encode->broken != SIZE_MAX && encode->phase->engine->world->size > 1)
        return 0;
    return run(encode, first, false, err);
}

int encode_is_complete(void *context, struct error *err)
{
    struct encode *encode = context;

    if (enough(encode))
        return 1;
    if (!board_done_up_to(encode->phase->board, encode->broken))
        return 0;
    *err = encode->broken_err;
    return -1;
}

int encode_part_path(const struct encode *encode, size_t chunk, char *path, struct error *err)
{
    return jobs_path(encode->phase->engine, encode->phase->name, "part", chunk, path, err);
}

int encode_redo(struct encode *encode, struct job *job, size_t chunk, struct error *err)
{
    int rc;

    pthread_mutex_lock(&encode->pool->redo_lock);
    encode->redoing = job;
    rc = run(encode, &chunk, true, err);
    encode->redoing = NULL;
    pthread_mutex_unlock(&encode->pool->redo_lock);
    return rc;
}

struct part_reader *encode_open_part(struct encode *encode, struct job *job, size_t chunk,
                                     struct error *err)
{
    for (bool redone = false;; redone = true) {
        struct part_reader *part;
        char path[DISK_PATH];
        int torn;

        if (encode_part_path(encode, chunk, path, err) < 0)
            return NULL;
        part = part_open(path, encode->plan->identity, chunk, encode->config->key_count,
                         tokenizer_id_size(encode->tokenizer), &torn, err);
        if (part || !torn || redone || encode_redo(encode, job, chunk, err) < 0)
            return part;
    }
}
