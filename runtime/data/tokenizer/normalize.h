/* SPDX-License-Identifier: Apache-2.0 */
/* SentencePiece's normalizer: a map of characters, spaces, and the space before the text.
 *
 * Inside this folder a SentencePiece space (U+2581) is a plain space, in texts and in pieces alike.
 */
#ifndef MEGATRON_NORMALIZE_H
#define MEGATRON_NORMALIZE_H

#include <stddef.h>
#include <stdint.h>
#include "engine.h"
#include "lib/error.h"
#include "trie.h"

enum {
    NORMALIZER_PREFIX = 1, /* always */
    NORMALIZER_MISSING,    /* if there is none yet */
    NORMALIZER_FIRST,      /* if there is none yet, and only at the start of the whole text */
};

enum normalizer_kind {
    NORMALIZER_STAYS = 1,  /* beyond ASCII, stays as it is */
    NORMALIZER_BASE = 2,   /* stays as well, unless a character follows that joins it */
    NORMALIZER_JOINED = 4, /* some entry of the map has it after a base or ASCII */
};

struct normalizer {
    const struct engine *engine; /* set with 'plain' */
    int active;                  /* texts are normalized at all */
    int prefix;                  /* put a space before a text: one of these, or 0 */
    int squeeze;                 /* no space at either end, no two adjacent ones */
    int suffix;                  /* the added space goes after the text */
    uint32_t *map;               /* double array of the character map, or NULL */
    size_t map_size;             /* units */
    char *replacements;          /* NUL-terminated texts, one after the other */
    size_t replacements_size;
    int has_kept; /* user-defined pieces, which are not changed; as written in the model */
    struct trie kept;
    uint8_t plain[256];  /* ASCII that stays as it is, whatever ASCII follows; no spaces */
    uint8_t single[256]; /* what a byte of ASCII becomes if 'joins' is 0 for the next byte; 0: look
                            it up */
    uint8_t joins[256];  /* may this byte, after ASCII, belong to a longer entry of the map? */
    int printable;       /* single[c] is c for all printable characters */
    int blocks;          /* 'engine' may be used: 'printable', and no entry joins two of ASCII */
    uint8_t kinds[0x10000]; /* bits of characters below U+10000: enum normalizer_kind */
    /* Characters that 'engine' must not copy, because they have to be looked up or may join the one
     * before them: by all bytes but the last, and a bit for each last byte. Small enough for the L1
     * cache, unlike 'kinds'. */
    uint64_t trouble_two[32], trouble_three[1024];
    uint8_t doubtful[48]; /* by first byte from 0xC0 on: 0xFF if any of its characters is one */
    int words; /* WhitespaceSplit: remove white space, and put a space before each word */
};

#define NORMALIZER_LONGEST 512 /* bytes that one character or user-defined piece may become */

void normalizer_clear(struct normalizer *normalizer);

/* Take over a precompiled character map. Returns 0, or -1 with what is wrong with it. */
int normalizer_set_map(struct normalizer *normalizer, const uint8_t *data, size_t length,
                       struct error *err);

/* Keep this piece as it is. Returns 0, or -1 like trie_insert. */
int normalizer_keep(struct normalizer *normalizer, const uint8_t *text, size_t length);

/* Fill in 'plain' to 'kinds', when all the rest is set. */
void normalizer_find_plain(struct normalizer *normalizer);

/* Within normalize*.c: how many of these bytes an entry of the map can begin with. '*found': is
 * there an entry of as many or fewer? */
size_t normalizer_walk(const struct normalizer *normalizer, const uint8_t *text, size_t length,
                       int *found);

/* The number of bytes at the start of a text, at most 'most', that are plain and stay. */
static inline size_t normalizer_plain_run(const struct normalizer *normalizer, const uint8_t *text,
                                          size_t length, size_t most)
{
    size_t run = 0;

    while (run < length && run < most && normalizer->plain[text[run]])
        run++;
    /* The next character may be a mark that the map composes with the last one. */
    return run > 0 && run < length && text[run] >= 0x80 ? run - 1 : run;
}

/* The shortest entry of the map that a text begins with: what it becomes, or NULL. */
const char *normalizer_look_up_first(const struct normalizer *normalizer, const uint8_t *text,
                                     size_t length, size_t *mapped);

/* Must this text be rewritten (1), or is it only in need of its prefix (0)? */
int normalizer_changes(const struct normalizer *normalizer, const uint8_t *text, size_t length);

/* Does a space belong before this text, which is at the start of the whole text or after a special
 * token? */
int normalizer_prefixes(const struct normalizer *normalizer, const uint8_t *text, size_t length,
                        int first);

/* The state of a text that is being normalized. */
struct normalizing {
    const struct normalizer *normalizer;
    const uint8_t *text;
    size_t length, at;
    int after_space; /* a space that follows now is dropped */
    size_t held;     /* spaces held back: at the end they may have to go */
    int ended;
};

void normalizing_begin(struct normalizing *state, const struct normalizer *normalizer,
                       const uint8_t *text, size_t length, int first);

/* Within normalize*.c: pass spaces that need not be looked up. Returns 1 if normalizing_copy can
 * continue. */
int normalizing_skip_spaces(struct normalizing *state);

/* Copy characters that need not be looked up, at most 'room' bytes. Returns how many. */
size_t normalizing_copy(struct normalizing *state, uint8_t *out, size_t room);

/* Write a part of the normalized text, at most 'room' bytes (at least 4 * NORMALIZER_LONGEST).
 * Returns how many; '*ended' tells whether it was the last. */
size_t normalizing_next(struct normalizing *state, uint8_t *out, size_t room, int *ended);

#endif
