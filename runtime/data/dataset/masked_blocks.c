/* SPDX-License-Identifier: Apache-2.0 */
#include "masked_blocks.h"

#include <inttypes.h>
#include <stdlib.h>
#include "base/core/xmalloc.h"

static int add_block(struct blocks *b, int64_t begin, int64_t length, struct error *err)
{
    if (length > INT32_MAX)
        return error_set(
            err, "a line of %" PRId64 " tokens is too long for a sample; split the line", length);
    if (b->count == b->capacity) {
        b->capacity = b->capacity ? 2 * b->capacity : 1024;
        b->begins = xrealloc(b->begins, (size_t)b->capacity, sizeof(*b->begins));
        b->lengths = xrealloc(b->lengths, (size_t)b->capacity, sizeof(*b->lengths));
    }
    b->begins[b->count] = begin;
    b->lengths[b->count++] = (int32_t)length;
    return 0;
}

/* End the open block. A document that is only its end is dropped. */
static int end_block(struct blocks *b, struct blocks_state *s, enum break_mode mode,
                     struct error *err)
{
    int64_t begin = s->at, length = s->length;

    s->at += length;
    s->length = 0;
    return length > (mode == BREAK_COMPLETE_DOC ? 1 : 0) ? add_block(b, begin, length, err) : 0;
}

static int add_line(struct blocks *b, struct blocks_state *s, enum break_mode mode, int64_t size,
                    int64_t line, struct error *err)
{
    int ends_document = mode == BREAK_COMPLETE_DOC && line == 1;

    if (mode == BREAK_NONE) {
        for (s->length += line; s->length >= size;) {
            int64_t more = s->length - size;

            s->length = size;
            if (end_block(b, s, mode, err) < 0)
                return -1;
            s->length = more;
        }
        return 0;
    }
    if (mode == BREAK_EOS) {
        if (add_block(b, s->at, line, err) < 0)
            return -1;
        s->at += line;
        return 0;
    }
    if (((s->length > 0 && s->length + line > size) || ends_document) &&
        end_block(b, s, mode, err) < 0)
        return -1;
    if (ends_document)
        s->at += line;
    else
        s->length += line;
    return 0;
}

int blocks_add(struct blocks *blocks, struct blocks_state *state, enum break_mode mode,
               int64_t size, const int32_t *lines, int64_t count, struct error *err)
{
    for (int64_t i = 0; i < count; i++)
        if (add_line(blocks, state, mode, size, lines[i], err) < 0)
            return -1;
    return 0;
}

int blocks_finish(struct blocks *blocks, struct blocks_state *state, enum break_mode mode,
                  struct error *err)
{
    return end_block(blocks, state, mode, err);
}

int blocks_make(struct blocks *blocks, const struct indexed *corpus, enum break_mode mode,
                int64_t size, struct error *err)
{
    enum { PIECE = 16384 };
    int64_t sequences = indexed_info(corpus)->sequences;
    struct blocks_state state = {0, 0};
    int32_t *lines = xmalloc(PIECE * sizeof(*lines));
    int rc = 0;

    *blocks = (struct blocks){0};
    for (int64_t first = 0; rc == 0 && first < sequences; first += PIECE) {
        int64_t count = sequences - first < PIECE ? sequences - first : PIECE;

        rc = indexed_lengths(corpus, first, count, lines, err);
        if (rc == 0)
            rc = blocks_add(blocks, &state, mode, size, lines, count, err);
    }
    free(lines);
    return rc == 0 ? blocks_finish(blocks, &state, mode, err) : -1;
}

void blocks_clear(struct blocks *blocks)
{
    free(blocks->begins);
    free(blocks->lengths);
    *blocks = (struct blocks){0};
}
