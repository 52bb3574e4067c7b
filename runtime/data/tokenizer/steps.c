/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

int steps_add(struct steps *steps, const char *pattern, size_t length, int own,
              enum step_behavior behavior, int invert, int level, struct error *err)
{
    struct step *step;

    if (steps->count == STEPS_MOST)
        return error_set_code(err, ERROR_USAGE, "more than %d steps", STEPS_MOST);
    step = xcalloc(1, sizeof(*step));
    if (regex_compile(&step->regex, pattern, length, own, err) < 0) {
        free(step);
        return -1;
    }
    step->behavior = behavior;
    step->invert = invert;
    step->level = level;
    steps->steps[steps->count++] = step;
    return 0;
}

void steps_clear(struct steps *steps)
{
    for (size_t i = 0; i < steps->count; i++) {
        regex_clear(&steps->steps[i]->regex);
        free(steps->steps[i]);
    }
    memset(steps, 0, sizeof(*steps));
}

void stepping_begin(struct stepping *stepping, const struct steps *steps, const uint8_t *text,
                    size_t length)
{
    memset(stepping, 0, sizeof(*stepping));
    stepping->steps = steps;
    stepping->states[0].at = text;
    stepping->states[0].end = text + length;
}

/* The first match in a text, whose start is stored in '*begin'. Returns its length, 0 if there is
 * none. */
static size_t find_match(const struct step *step, const uint8_t *at, const uint8_t *end,
                         const uint8_t **begin)
{
    const struct regex *regex = &step->regex;
    uint32_t point;

    while (at < end) {
        size_t length;

        if (!step->level && !regex->starts[*at]) {
            at++;
            continue;
        }
        length = step->level ? regex_match_level(regex, at, end) : regex_match(regex, at, end);
        if (length > 0) {
            *begin = at;
            return length;
        }
        at += step->level ? 1 : utf8_decode(at, end, &point);
    }
    *begin = end;
    return 0;
}

/* The next match, or the text before it, in the current piece of a step. */
static int next_raw(struct stepping *stepping, size_t level, struct piece *piece)
{
    const struct step *step = stepping->steps->steps[level];
    const uint8_t *at = stepping->states[level].at, *end = stepping->states[level].end, *begin;
    struct piece *held = &stepping->states[level].held;
    size_t length;

    if (held->begin) {
        *piece = *held;
        held->begin = NULL;
        return 1;
    }
    if (at == end)
        return 0;
    length = find_match(step, at, end, &begin);
    stepping->states[level].at = begin + length;
    *piece = (struct piece){at, begin, step->invert};
    *held = (struct piece){begin, begin + length, !step->invert};
    if (length == 0)
        held->begin = NULL;
    if (begin == at) {
        *piece = *held;
        held->begin = NULL;
    }
    return 1;
}

/* Does a piece belong to the one before it? In an inverted step, adjacent matches are not
 * 'matched', but they are contiguous, too. */
static int joins(enum step_behavior behavior, const struct piece *before, const struct piece *piece)
{
    switch (behavior) {
    case STEP_CONTIGUOUS:
        return before->matched == piece->matched;
    case STEP_WITH_PREVIOUS:
        return !before->matched && piece->matched;
    case STEP_WITH_NEXT:
        return before->matched && !piece->matched;
    default:
        return 0;
    }
}

static int next_joined(struct stepping *stepping, size_t level, struct piece *piece)
{
    enum step_behavior behavior = stepping->steps->steps[level]->behavior;
    struct piece *waiting = &stepping->states[level].joined, next;

    if (behavior == STEP_ISOLATED)
        return next_raw(stepping, level, piece);
    *piece = *waiting;
    waiting->begin = NULL;
    if (!piece->begin && !next_raw(stepping, level, piece))
        return 0;
    while (next_raw(stepping, level, &next)) {
        if (!joins(behavior, piece, &next)) {
            *waiting = next;
            break;
        }
        piece->end = next.end;
        /* A match that has joined its neighbor does not take another one. */
        piece->matched = next.matched;
    }
    return 1;
}

const uint8_t *stepping_next(struct stepping *stepping)
{
    size_t last = stepping->steps->count - 1, level = last;
    struct piece piece;

    for (;;) {
        if (next_joined(stepping, level, &piece)) {
            if (level == last)
                return piece.end;
            level++;
            stepping->states[level].at = piece.begin;
            stepping->states[level].end = piece.end;
        } else if (level-- == 0) {
            return NULL;
        }
    }
}
