/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: words from the splitter go through the cache in batches, so that the memory of a
 * whole batch is being fetched before the first word is read; words that are not in the cache are
 * encoded and stored. */
#include "tokenizer_private.h"
#include "encoder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/core/xmalloc.h"

#define CACHE_DEFAULT (UINT64_C(24) << 20)
#define CACHE_LEAST   (UINT64_C(64) << 10)
#define CACHE_MOST    (UINT64_C(1) << 30)
#define HUGE_PAGE     ((uintptr_t)2 << 20)

struct encoder *encoder_create(const struct tokenizer *tokenizer, size_t cache_bytes,
                               struct error *err)
{
    struct encoder *encoder = xcalloc(1, sizeof(*encoder));

    if (cache_bytes == 0)
        cache_bytes = CACHE_DEFAULT;
    if (cache_bytes < CACHE_LEAST)
        cache_bytes = CACHE_LEAST;
    if (cache_bytes > CACHE_MOST)
        cache_bytes = CACHE_MOST;
    if (words_init(&encoder->words, cache_bytes) < 0) {
        free(encoder);
        error_set(err, "a cache of %zu bytes: out of memory", cache_bytes);
        return NULL;
    }
    if (tokenizer->bpe.space_runs)
        encoder->runs = xcalloc(SPACE_RUNS, sizeof(*encoder->runs));
    encoder->tokenizer = tokenizer;
    encoder->wide = tokenizer->id_size == 4;
    encoder->splitter.options = tokenizer->split;
    encoder->splitter.cuts = tokenizer->cuts;
    encoder->splitter.joins = tokenizer->model == MODEL_UNIGRAM;
    encoder->splitter.steps = &tokenizer->steps;
    return encoder;
}

void encoder_destroy(struct encoder *encoder)
{
    if (!encoder)
        return;
    words_clear(&encoder->words);
    bpe_scratch_clear(&encoder->scratch);
    free(encoder->ids);
    text_buffer_clear(&encoder->normal);
    rewriting_clear(&encoder->rewriting);
    free(encoder->runs);
    free(encoder);
}

/* The first touch of a large buffer costs as much as filling it, unless its pages are large. */
static void use_huge_pages(void *memory, size_t size)
{
    uintptr_t begin = ((uintptr_t)memory + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    uintptr_t end = ((uintptr_t)memory + size) & ~(HUGE_PAGE - 1);

    if (end > begin && end - begin >= 2 * HUGE_PAGE)
        madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

void token_buffer_reserve(struct token_buffer *buffer, size_t more, size_t id_size)
{
    size_t wanted = buffer->count + more;

    if (wanted <= buffer->capacity)
        return;
    buffer->capacity += buffer->capacity / 2;
    if (buffer->capacity < wanted)
        buffer->capacity = wanted + 1024;
    buffer->ids = xrealloc(buffer->ids, buffer->capacity, id_size);
    use_huge_pages(buffer->ids, buffer->capacity * id_size);
}

void token_buffer_clear(struct token_buffer *buffer)
{
    free(buffer->ids);
    memset(buffer, 0, sizeof(*buffer));
}

/* Append ids one by one; room is reserved. */
static void put_ids(struct token_buffer *out, const uint32_t *ids, size_t count, int wide)
{
    for (size_t i = 0; i < count; i++) {
        if (wide)
            ((int32_t *)out->ids)[out->count++] = (int32_t)ids[i];
        else
            ((uint16_t *)out->ids)[out->count++] = (uint16_t)ids[i];
    }
}

static uint32_t unpack(const uint8_t *ids, size_t at, int wide)
{
    uint16_t narrow;

    if (wide)
        return ids[3 * at] | (uint32_t)ids[3 * at + 1] << 8 | (uint32_t)ids[3 * at + 2] << 16;
    memcpy(&narrow, ids + 2 * at, 2);
    return narrow;
}

void encoder_reserve(struct encoder *encoder, size_t length)
{
    size_t wanted = length * 3;

    if (wanted <= encoder->id_capacity)
        return;
    free(encoder->ids);
    encoder->id_capacity = wanted + wanted / 4 + 1024;
    encoder->ids = xmalloc(encoder->id_capacity * sizeof(*encoder->ids));
}

/* Encode a word that is in no table, into encoder->ids. Returns the number of ids. '*sure': are
 * they the same after any text? */
static size_t encode_word(struct encoder *encoder, const uint8_t *word, size_t length, int *sure)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;

    encoder_reserve(encoder, length);
    *sure = 1;
    if (tokenizer->model == MODEL_WORDPIECE)
        return wordpiece_encode(&tokenizer->wordpiece, word, length, encoder->ids);
    if (tokenizer->model == MODEL_UNIGRAM)
        return unigram_encode(&tokenizer->unigram, &encoder->scratch, word, length, encoder->ids,
                              sure);
    return bpe_encode(&tokenizer->bpe, &encoder->scratch, word, length, encoder->ids);
}

void encoder_put_ids(struct encoder *encoder, size_t count, struct token_buffer *out)
{
    token_buffer_reserve(out, count, encoder->tokenizer->id_size);
    put_ids(out, encoder->ids, count, encoder->wide);
}

static void put_entry(struct encoder *encoder, const uint8_t *packed, size_t count,
                      struct token_buffer *out)
{
    uint32_t ids[WORD_LONG_NARROW];

    for (size_t i = 0; i < count; i++)
        ids[i] = unpack(packed, i, encoder->wide);
    token_buffer_reserve(out, count, encoder->tokenizer->id_size);
    put_ids(out, ids, count, encoder->wide);
}

/* A word of up to 31 bytes, looked up in the second table. */
static void take_long(struct encoder *encoder, const uint8_t *word, size_t length,
                      struct token_buffer *out)
{
    const struct word_long *entry;
    uint64_t key[4];
    size_t count;
    int sure;

    word_long_key(word, length, key);
    entry = words_find_long(&encoder->words, key);
    sure = !entry || entry->count != WORD_UNSURE;
    if (entry && sure) {
        put_entry(encoder, entry->ids, entry->count, out);
        return;
    }
    if (!entry) {
        count = encode_word(encoder, word, length, &sure);
        words_put_long(&encoder->words, key, encoder->ids, sure ? count : 0, encoder->wide,
                       sure ? 0 : WORD_UNSURE);
    }
    if (sure)
        encoder_put_ids(encoder, count, out);
    else
        encoder_take_after(encoder, word, length, out);
}

/* Is this the encoding of a word that begins with a space that did not merge? */
static int is_bare(const struct bpe *bpe, const uint8_t *word, size_t length, uint32_t first_id)
{
    return bpe->space_runs && length > 1 && word[0] == ' ' && word[1] != ' ' &&
           first_id == bpe->byte_symbols[' '];
}

/* Store the ids of a short word. If it has too many, it goes into the second table, and the first
 * one says so. */
static void put_short(struct encoder *encoder, uint64_t low, uint64_t high, const uint32_t *ids,
                      size_t count)
{
    uint64_t bytes[2] = {low, high}, key[4];
    int mark = 0;

    if (count > 0 && is_bare(&encoder->tokenizer->bpe, (const uint8_t *)bytes, high >> 56, ids[0]))
        mark = WORD_BARE;
    words_put_short(&encoder->words, low, high, ids, count, encoder->wide, mark);
    if (count <= (encoder->wide ? WORD_SHORT_WIDE : WORD_SHORT_NARROW))
        return;
    word_long_key((const uint8_t *)bytes, high >> 56, key);
    words_put_long(&encoder->words, key, ids, count, encoder->wide, 0);
}

/* The entry of a short word that is not first in its set. */
static const struct word_short *find_short(struct encoder *encoder, const struct job *job)
{
    const struct word_short *entry = encoder->words.shorts + job->set;
    uint64_t bytes[2] = {job->low, job->high & ~(UINT64_C(0xFF) << 56)};
    uint32_t small[16], *ids = small;
    size_t count = 0;
    int sure = 1;

    if ((entry[1].low == job->low) & (entry[1].high == job->high)) {
        words_promote(&encoder->words, job->set);
        return entry;
    }
    if (encoder->tokenizer->model == MODEL_BPE)
        count = encoder->tokenizer->bpe.engine->small(&encoder->tokenizer->bpe,
                                                      (const uint8_t *)bytes, job->high >> 56, ids);
    if (count == 0) {
        count = encode_word(encoder, (const uint8_t *)bytes, job->high >> 56, &sure);
        ids = encoder->ids;
    }
    if (sure)
        put_short(encoder, job->low, job->high, ids, count);
    else
        words_put_short(&encoder->words, job->low, job->high, ids, 0, encoder->wide, WORD_UNSURE);
    return entry + ((entry[1].low == job->low) & (entry[1].high == job->high));
}

static void take_huge(struct encoder *encoder, const uint8_t *word, size_t length,
                      struct token_buffer *out)
{
    /* A word that begins with two spaces then consists of spaces only. */
    struct space_run *run =
        encoder->runs && length > 1 && length < SPACE_RUNS && word[0] == ' ' && word[1] == ' '
            ? &encoder->runs[length]
            : NULL;
    const uint32_t *ids = run && run->count > 0 ? run->ids : NULL;
    int sure;
    size_t count = ids ? run->count : encode_word(encoder, word, length, &sure);

    token_buffer_reserve(out, count, encoder->tokenizer->id_size);
    if (run && !ids && count <= SPACE_RUN_IDS) {
        memcpy(run->ids, encoder->ids, count * sizeof(*run->ids));
        run->count = (uint32_t)count;
    }
    put_ids(out, ids ? ids : encoder->ids, count, encoder->wide);
}

/* The bytes of a job's word. */
static const uint8_t *job_word(const struct job *job, size_t *length)
{
    *length = job->set == JOB_LONG ? job->high : job->high >> 56;
    return job->set == JOB_LONG ? (const uint8_t *)(uintptr_t)job->low : (const uint8_t *)&job->low;
}

/* The number of spaces if the previous job consists of spaces only, otherwise 0. */
static size_t spaces_before(const struct encoder *encoder, const struct job *job)
{
    size_t length;
    const uint8_t *word = job_word(job > encoder->jobs ? job - 1 : &encoder->before, &length);

    if (length == 0 || word[0] != ' ' || (length > 1 && memcmp(word, word + 1, length - 1) != 0))
        return 0;
    return length;
}

/* The last ids are those of 'spaces' spaces and, from 'at' on, those of a word whose first id is a
 * single space: that space belongs to the others. */
static void mend_spaces(struct encoder *encoder, size_t spaces, size_t at, struct token_buffer *out)
{
    size_t size = encoder->tokenizer->id_size, tail = out->count - at - 1;
    uint8_t *run = xmalloc(spaces + 1 + tail * size);
    int sure;

    memset(run, ' ', spaces + 1);
    memcpy(run + spaces + 1, (char *)out->ids + (at + 1) * size, tail * size);
    out->count = at - encode_word(encoder, run, spaces, &sure);
    take_huge(encoder, run, spaces + 1, out);
    token_buffer_reserve(out, tail, size);
    memcpy((char *)out->ids + out->count * size, run + spaces + 1, tail * size);
    out->count += tail;
    free(run);
}

/* Any word that is not found directly in the first table. */
static void take_other(struct encoder *encoder, const struct job *job,
                       const struct word_short *entry, struct token_buffer *out)
{
    const struct unigram *unigram = &encoder->tokenizer->unigram;
    size_t at = out->count, length, spaces;
    const uint8_t *word = job_word(job, &length);
    uint32_t first;

    if (encoder->careful)
        encoder_sum(encoder, out);
    if ((encoder->careful && unigram_resets(unigram, encoder->score, length)) ||
        (length > WORD_LONG && unigram->whole) || (entry && entry->count == WORD_UNSURE))
        encoder_take_after(encoder, word, length, out);
    else if (length > WORD_LONG)
        take_huge(encoder, word, length, out);
    else if (!entry || entry->count == WORD_ELSEWHERE)
        take_long(encoder, word, length, out);
    else
        put_entry(encoder, entry->ids, entry->count % WORD_BARE, out);
    if (out->count == at || !encoder->runs)
        return;
    first = encoder->wide ? ((uint32_t *)out->ids)[at] : ((uint16_t *)out->ids)[at];
    if (!is_bare(&encoder->tokenizer->bpe, word, length, first))
        return;
    spaces = spaces_before(encoder, job);
    if (spaces > 0)
        mend_spaces(encoder, spaces, at, out);
}

static inline __attribute__((always_inline)) void run_jobs(struct encoder *encoder,
                                                           struct token_buffer *out, int wide)
{
    const struct word_short *shorts = encoder->words.shorts;
    const struct job *job = encoder->jobs, *end = job + encoder->job_count;
    /* One store writes more than the ids of a word; the space after the last one is reserved for
     * it. */
    size_t each = wide ? WORD_SHORT_WIDE : WORD_SHORT_NARROW, spare = 8, size = wide ? 4 : 2;
    int careful = encoder->careful;
    char *to;

    encoder->job_count = 0;
    if (job == end)
        return;
    token_buffer_reserve(out, (size_t)(end - job) * each + spare, size);
    to = (char *)out->ids + out->count * size;
    for (; job < end; job++) {
        const struct word_short *entry = NULL;
        size_t count = WORD_ELSEWHERE;

        if (__builtin_expect(job->set != JOB_LONG, 1)) {
            entry = shorts + job->set;
            if (__builtin_expect((entry->low != job->low) | (entry->high != job->high), 0))
                entry = find_short(encoder, job);
            count = entry->count;
        }
        if (__builtin_expect(count > WORD_SHORT_NARROW, 0) && count != WORD_ELSEWHERE &&
            encoder->tokenizer->model == MODEL_BPE && spaces_before(encoder, job) == 0)
            count -= WORD_BARE;
        if (__builtin_expect((count > WORD_SHORT_NARROW) | careful, 0)) {
            out->count = (size_t)(to - (char *)out->ids) / size;
            take_other(encoder, job, entry, out);
            token_buffer_reserve(out, (size_t)(end - job) * each + spare, size);
            to = (char *)out->ids + out->count * size;
            continue;
        }
        if (wide) {
            for (size_t k = 0; k < WORD_SHORT_WIDE; k++)
                ((int32_t *)(void *)to)[k] = (int32_t)unpack(entry->ids, k, 1);
        } else {
            memcpy(to, entry->ids, 16);
        }
        to += count * size;
    }
    out->count = (size_t)(to - (char *)out->ids) / size;
    encoder->before = end[-1];
}

static void run(struct encoder *encoder, struct token_buffer *out)
{
    if (encoder->wide)
        run_jobs(encoder, out, 1);
    else
        run_jobs(encoder, out, 0);
}

/* Run the jobs of a batch. Where sums of scores extend over the whole text, a batch in which they
 * may have been reset is done again, word by word. */
static void flush(struct encoder *encoder, struct token_buffer *out)
{
    const struct unigram *unigram = &encoder->tokenizer->unigram;
    size_t jobs = encoder->job_count, before = out->count, score_at = encoder->score_at;
    double score = encoder->score;

    if (!unigram->whole) {
        run(encoder, out);
        return;
    }
    encoder->careful = encoder->near_reset;
    run(encoder, out);
    /* The sum is needed only if it may be near to a reset; words that depend on it add it up. */
    if (!encoder->careful && !encoder->near_reset &&
        !unigram_may_reset(unigram, encoder->score, out->count - encoder->score_at, WORD_LONG))
        return;
    encoder_sum(encoder, out);
    if (!encoder->near_reset || encoder->careful)
        return;
    out->count = before;
    encoder->score = score;
    encoder->score_at = score_at;
    encoder->job_count = jobs;
    encoder->careful = 1;
    run(encoder, out);
    encoder_sum(encoder, out);
}

static inline void add_short(struct encoder *encoder, const uint8_t *word, size_t length,
                             size_t left)
{
    struct job *job = &encoder->jobs[encoder->job_count++];
    const struct words *words = &encoder->words;
    uint64_t low, high;
    size_t set;

    word_short_key(word, length, left, &low, &high);
    set = word_short_set(words, low, high);
    __builtin_prefetch(words->shorts + set);
    *job = (struct job){low, high, (uint32_t)set};
}

static inline void add_job(struct encoder *encoder, const uint8_t *word, size_t length, size_t left)
{
    if (length <= WORD_SHORT) {
        add_short(encoder, word, length, left);
        return;
    }
    if (length <= WORD_LONG) {
        uint64_t key[4];
        const struct word_long *set;

        word_long_key(word, length, key);
        set = encoder->words.longs + word_long_set(&encoder->words, key);
        __builtin_prefetch(set);
        __builtin_prefetch(set + 1);
    }
    encoder->jobs[encoder->job_count++] = (struct job){(uintptr_t)word, length, JOB_LONG};
}

/* With whole_words: is one of the pieces of a word to be cut a token that only a whole word may
 * become? As a piece it would become that token, too. */
static int must_stay_whole(const struct bpe *bpe, const uint8_t *word, size_t length)
{
    size_t begin = 0;

    if (!bpe->whole_words)
        return 0;
    for (size_t at = bpe_cut(bpe, word, length, 0); begin < length;
         at = bpe_cut(bpe, word, length, at)) {
        if (at - begin < length && bpe_whole_word(bpe, word + begin, at - begin) != BPE_NONE)
            return 1;
        begin = at;
    }
    return 0;
}

/* A longer word: cut it between bytes or characters that are adjacent in no token. Pieces that
 * remain are looked up or encoded whole. */
static void add_long(struct encoder *encoder, const uint8_t *word, size_t length, size_t left,
                     struct token_buffer *out)
{
    const struct bpe *bpe = &encoder->tokenizer->bpe;
    int whole = encoder->tokenizer->model == MODEL_WORDPIECE || must_stay_whole(bpe, word, length);
    size_t begin = 0;

    for (size_t at = whole ? length : bpe_cut(bpe, word, length, 0); begin < length;
         at = bpe_cut(bpe, word, length, at)) {
        if (encoder->job_count == JOBS)
            flush(encoder, out);
        add_job(encoder, word + begin, at - begin, left - begin);
        begin = at;
    }
}

/* The words between 'begin' and the last word end of the chunk, which is then stored in 'begin'. */
static void add_words(struct encoder *encoder, const uint8_t *text, size_t length, size_t *begin,
                      struct token_buffer *out)
{
    const struct splitter *splitter = &encoder->splitter;
    const struct words words = encoder->words;
    const uint32_t *end = splitter->ends, *last = end + splitter->count;
    size_t from = *begin, base = splitter->base;

    while (end < last) {
        struct job *job = encoder->jobs + encoder->job_count, *full = encoder->jobs + JOBS;

        for (; end < last && job < full; end++) {
            size_t size = base + *end - from, set;
            uint64_t low, high;

            if (__builtin_expect(size > WORD_SHORT, 0))
                break;
            word_short_key(text + from, size, length - from, &low, &high);
            set = word_short_set(&words, low, high);
            __builtin_prefetch(words.shorts + set);
            *job++ = (struct job){low, high, (uint32_t)set};
            from += size;
        }
        encoder->job_count = (size_t)(job - encoder->jobs);
        if (job == full)
            flush(encoder, out);
        if (end < last && base + *end - from > WORD_SHORT) {
            add_long(encoder, text + from, base + *end - from, length - from, out);
            from = base + *end++;
        }
    }
    *begin = from;
}

void encoder_span(struct encoder *encoder, const uint8_t *text, size_t length,
                  struct token_buffer *out)
{
    size_t begin = 0;

    encoder->before = (struct job){0};
    split_begin(&encoder->splitter, text, length);
    while (split_next(&encoder->splitter))
        add_words(encoder, text, length, &begin, out);
    flush(encoder, out);
}

void encoder_put(struct encoder *encoder, uint32_t id, struct token_buffer *out)
{
    token_buffer_put(out, id, encoder->tokenizer->id_size);
}
