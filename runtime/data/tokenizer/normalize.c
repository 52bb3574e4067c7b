/* SPDX-License-Identifier: Apache-2.0 */
#include "normalize.h"
#include "unicode.h"
#include "trie.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

void normalizer_clear(struct normalizer *normalizer)
{
    free(normalizer->map);
    free(normalizer->replacements);
    if (normalizer->has_kept)
        trie_clear(&normalizer->kept);
    memset(normalizer, 0, sizeof(*normalizer));
}

int normalizer_keep(struct normalizer *normalizer, const uint8_t *text, size_t length)
{
    uint32_t former;

    if (!normalizer->has_kept)
        trie_init(&normalizer->kept);
    normalizer->has_kept = 1;
    return trie_insert(&normalizer->kept, text, length, 0, &former);
}

/* The map is: the size of a double array in bytes, that array, and the texts it points into. */
int normalizer_set_map(struct normalizer *normalizer, const uint8_t *data, size_t length,
                       struct error *err)
{
    uint32_t size;
    size_t texts, run = 0;

    if (length < 4)
        return error_set(err, "the character map is truncated");
    memcpy(&size, data, 4);
    if (size > length - 4 || size % 4 != 0 || size < 4)
        return error_set(
            err, "the character map should begin with %u bytes of a table, but has %zu bytes", size,
            length - 4);
    texts = length - 4 - size;
    if (texts == 0 || data[length - 1] != '\0')
        return error_set(err, "the character map is truncated: its last text has no end");
    for (size_t i = 4 + size; i < length; i++) {
        run = data[i] ? run + 1 : 0;
        if (run > NORMALIZER_LONGEST)
            return error_set(err,
                             "the character map contains a text of more than %d bytes, the "
                             "most that are supported" OTHER_TOKENIZER,
                             NORMALIZER_LONGEST);
    }
    normalizer->map = xmalloc(size);
    normalizer->replacements = xmalloc(texts);
    memcpy(normalizer->map, data + 4, size);
    normalizer->map_size = size / 4;
    memcpy(normalizer->replacements, data + 4 + size, texts);
    normalizer->replacements_size = texts;
    return 0;
}

/* Units of a darts-clone double array. */
static size_t unit_offset(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* Step to the node for a byte. Returns false if there is none; every step is checked, because the
 * array comes from a file. */
static inline bool step(const struct normalizer *normalizer, size_t *node, uint8_t byte,
                        uint32_t *unit)
{
    *node ^= byte;
    if (*node >= normalizer->map_size)
        return false;
    *unit = normalizer->map[*node];
    if ((*unit & ((1u << 31) | 0xFF)) != byte)
        return false;
    *node ^= unit_offset(*unit);
    return true;
}

/* The longest prefix of 'text' in the map, or with 'first' the shortest, and the text it becomes;
 * or NULL. */
static const char *look_up(const struct normalizer *normalizer, const uint8_t *text, size_t length,
                           bool first, size_t *matched)
{
    size_t node = unit_offset(normalizer->map[0]), value;
    const char *found = NULL;
    uint32_t unit;

    for (size_t i = 0; i < length && step(normalizer, &node, text[i], &unit); i++) {
        if (!(unit >> 8 & 1))
            continue;
        if (node >= normalizer->map_size)
            break;
        value = normalizer->map[node] & 0x7FFFFFFF;
        if (value >= normalizer->replacements_size)
            break;
        found = normalizer->replacements + value;
        *matched = i + 1;
        if (first)
            break;
    }
    return found;
}

const char *normalizer_look_up_first(const struct normalizer *normalizer, const uint8_t *text,
                                     size_t length, size_t *mapped)
{
    const uint8_t *nul = memchr(text, '\0', length);
    const char *found;
    size_t matched;

    found = look_up(normalizer, text, nul ? (size_t)(nul - text) : length, true, &matched);
    if (found)
        *mapped = strlen(found);
    return found;
}

size_t normalizer_walk(const struct normalizer *normalizer, const uint8_t *text, size_t length,
                       int *found)
{
    size_t node, i;
    uint32_t unit;

    *found = 0;
    if (!normalizer->map)
        return 0;
    node = unit_offset(normalizer->map[0]);
    for (i = 0; i < length && step(normalizer, &node, text[i], &unit); i++)
        *found |= unit >> 8 & 1;
    return i;
}

int normalizer_changes(const struct normalizer *normalizer, const uint8_t *text, size_t length)
{
    const uint8_t *end = text + length;

    if (normalizer->map || normalizer->squeeze || normalizer->suffix || normalizer->has_kept ||
        normalizer->words)
        return 1;
    /* Only U+2581 itself, E2 96 81, is written differently. 0x96 is rarer than 0xE2. */
    for (const uint8_t *at = text; end - at >= 2; at++) {
        at = memchr(at + 1, 0x96, (size_t)(end - at - 1));
        if (!at)
            return 0;
        if (at[-1] == 0xE2 && at + 1 < end && at[1] == 0x81)
            return 1;
        at--;
    }
    return 0;
}

/* Map the next characters: '*out' is the result. Returns how many bytes of the text it replaces. */
static size_t next_piece(const struct normalizing *state, const char **out, size_t *out_length)
{
    const struct normalizer *normalizer = state->normalizer;
    const uint8_t *text = state->text + state->at;
    size_t left = state->length - state->at, matched;
    uint32_t point;

    if (normalizer->has_kept &&
        trie_longest(&normalizer->kept, text, left, &matched) != TRIE_NONE) {
        *out = (const char *)text;
        *out_length = matched;
        return matched;
    }
    if (normalizer->map) {
        *out = look_up(normalizer, text, left, false, &matched);
        if (*out) {
            *out_length = strlen(*out);
            return matched;
        }
    }
    matched = utf8_decode(text, text + left, &point);
    *out = point == UNICODE_INVALID ? "\xEF\xBF\xBD" : (const char *)text;
    *out_length = point == UNICODE_INVALID ? 3 : matched;
    return matched;
}

int normalizer_prefixes(const struct normalizer *normalizer, const uint8_t *text, size_t length,
                        int first)
{
    int there =
        length > 0 && (*text == ' ' || (length >= 3 && memcmp(text, "\xE2\x96\x81", 3) == 0));

    if (normalizer->prefix == NORMALIZER_MISSING)
        return !there;
    if (normalizer->prefix == NORMALIZER_FIRST)
        return first && !there;
    return normalizer->prefix;
}

void normalizing_begin(struct normalizing *state, const struct normalizer *normalizer,
                       const uint8_t *text, size_t length, int first)
{
    memset(state, 0, sizeof(*state));
    state->normalizer = normalizer;
    state->text = text;
    state->length = length;
    state->after_space = normalizer->squeeze;
    while (normalizer->squeeze && state->at < length) {
        const char *piece;
        size_t piece_length, size = next_piece(state, &piece, &piece_length);

        if (piece_length != 1 || *piece != ' ')
            break;
        state->at += size;
    }
    if (state->at == length)
        state->ended = 1;
    else if (!normalizer->suffix && normalizer_prefixes(normalizer, text, length, first))
        state->held = 1;
}

/* Copy a piece with U+2581 as a space; spaces are held until something follows. */
static size_t write_piece(struct normalizing *state, const char *piece, size_t length, uint8_t *out)
{
    size_t made = 0;

    for (size_t i = 0; i < length; i++) {
        int space = piece[i] == ' ';

        if (length - i >= 3 && memcmp(piece + i, "\xE2\x96\x81", 3) == 0) {
            space = 1;
            i += 2;
        }
        if (space) {
            state->held++;
            continue;
        }
        memset(out + made, ' ', state->held);
        made += state->held;
        state->held = 0;
        out[made++] = (uint8_t)piece[i];
    }
    return made;
}

static int is_space(const char *piece, size_t length)
{
    return (length == 1 && *piece == ' ') || (length == 3 && memcmp(piece, "\xE2\x96\x81", 3) == 0);
}

/* Write as many held spaces as there is room for. */
static size_t write_held(struct normalizing *state, uint8_t *out, size_t room)
{
    size_t count = state->held < room ? state->held : room;

    memset(out, ' ', count);
    state->held -= count;
    return count;
}

size_t normalizing_next(struct normalizing *state, uint8_t *out, size_t room, int *ended)
{
    const struct normalizer *normalizer = state->normalizer;
    size_t made = 0;

    *ended = 0;
    while (!state->ended && state->at < state->length) {
        const char *piece;
        size_t length, size;

        if (room - made < 2 * NORMALIZER_LONGEST)
            return made;
        if (normalizing_skip_spaces(state)) {
            made += write_held(state, out + made, room - made - NORMALIZER_LONGEST);
            if (state->held > 0)
                return made;
            made += normalizing_copy(state, out + made, room - made - NORMALIZER_LONGEST);
            continue;
        }
        if (state->at == state->length)
            break;
        size = next_piece(state, &piece, &length);
        while (state->after_space && length > 0 && *piece == ' ') {
            piece++;
            length--;
        }
        if (length > 0 && !is_space(piece, length)) {
            made += write_held(state, out + made, room - made - NORMALIZER_LONGEST);
            if (state->held > 0)
                return made;
        }
        if (length > 0) {
            state->after_space = normalizer->squeeze && piece[length - 1] == ' ';
            made += write_piece(state, piece, length, out + made);
        }
        state->at += size;
    }
    if (!state->ended && normalizer->squeeze)
        state->held = 0;
    if (!state->ended && normalizer->prefix && normalizer->suffix)
        state->held++;
    state->ended = 1;
    made += write_held(state, out + made, room - made);
    *ended = state->held == 0;
    return made;
}
