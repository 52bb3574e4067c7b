/* SPDX-License-Identifier: Apache-2.0 */
#include "pickle_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK ((size_t)64 << 10)

/* Memory of all values, freed at once. */
struct block {
    struct block *next;
    max_align_t memory[];
};

/* --- Memory ---------------------------------------------------------------------------------- */

struct pickle_value *pickle_new(struct pickle *p, enum pickle_type type)
{
    struct pickle_value *value;

    if (p->left < sizeof(*value)) {
        struct block *block = xmalloc(sizeof(*block) + BLOCK);

        block->next = p->blocks;
        p->blocks = block;
        p->left = BLOCK - BLOCK % sizeof(*value);
    }
    p->left -= sizeof(*value);
    value = (struct pickle_value *)((char *)p->blocks->memory + p->left);
    memset(value, 0, sizeof(*value));
    value->type = type;
    return value;
}

/* Lists are allocated outside the blocks; the values that own them free them. */
static void free_lists(struct pickle *p)
{
    size_t left = p->left;

    for (struct block *block = p->blocks, *next; block; block = next) {
        size_t full = BLOCK - BLOCK % sizeof(struct pickle_value);

        for (size_t at = left; at < full; at += sizeof(struct pickle_value)) {
            struct pickle_value *value = (struct pickle_value *)((char *)block->memory + at);

            if (value->type == PICKLE_LIST || value->type == PICKLE_DICT)
                free(value->items);
        }
        left = 0;
        next = block->next;
        free(block);
    }
}

void pickle_destroy(struct pickle *p)
{
    if (!p)
        return;
    free_lists(p);
    list_free(&p->persistent);
    free(p);
}

/* --- Values --------------------------------------------------------------------------------- */

const struct pickle_value *pickle_root(const struct pickle *p)
{
    return p->root;
}

const struct pickle_value *pickle_persistent(const struct pickle *p, size_t index)
{
    return index < p->persistent.count ? p->persistent.items[index] : NULL;
}

static int same_text(struct pickle_text text, const char *other)
{
    return text.length == strlen(other) && memcmp(text.at, other, text.length) == 0;
}

int pickle_is_text(const struct pickle_value *value, const char *text)
{
    return value && value->type == PICKLE_STRING && same_text(value->text, text);
}

int pickle_is_global(const struct pickle_value *value, const char *module, const char *name)
{
    return value && value->type == PICKLE_GLOBAL && same_text(value->text, module) &&
           same_text(value->name, name);
}

void pickle_show(const struct pickle_value *value, char text[64])
{
    switch (value ? value->type : PICKLE_NONE) {
    case PICKLE_STRING:
        snprintf(text, 64, "%.*s", value->text.length < 40 ? (int)value->text.length : 40,
                 value->text.at);
        for (char *c = text; *c; c++)
            if ((unsigned char)*c < ' ' || *c == 0x7f)
                *c = '?';
        break;
    case PICKLE_BOOL:
        snprintf(text, 64, "%s", value->integer ? "True" : "False");
        break;
    case PICKLE_INTEGER:
        snprintf(text, 64, "%" PRId64, value->integer);
        break;
    case PICKLE_REAL:
        snprintf(text, 64, "%g", value->real);
        break;
    default:
        text[0] = '\0';
    }
}

const struct pickle_value *pickle_member(const struct pickle_value *value, const char *name)
{
    if (value && value->type == PICKLE_OBJECT)
        value = value->state;
    if (!value || value->type != PICKLE_DICT)
        return NULL;
    /* The last one counts, as in Python. */
    for (size_t i = value->count; i >= 2; i -= 2)
        if (pickle_is_text(value->items[i - 2], name))
            return value->items[i - 1];
    return NULL;
}

const struct pickle_value *pickle_item(const struct pickle_value *value, size_t index)
{
    return value && value->type == PICKLE_LIST && index < value->count ? value->items[index] : NULL;
}
