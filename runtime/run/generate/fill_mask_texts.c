/* SPDX-License-Identifier: Apache-2.0 */
#include "fill_mask_private.h"

#include <stdlib.h>
#include <string.h>

static int64_t find_piece(const struct tokenizer *tokenizer, const char *piece)
{
    size_t size = strlen(piece), length;

    for (int64_t id = tokenizer_vocab_size(tokenizer) - 1; id >= 0; id--) {
        const char *text = tokenizer_piece(tokenizer, id, &length);

        if (text && length == size && memcmp(text, piece, size) == 0)
            return id;
    }
    return -1;
}

/* The names of RoBERTa's and of BERT's vocabularies. */
int special_ids_find(struct special_ids *ids, const struct tokenizer *tokenizer, int64_t mask,
                     struct error *err)
{
    static const char *const names[][3] = {{"<mask>", "<s>", "</s>"}, {"[MASK]", "[CLS]", "[SEP]"}};

    *ids = (struct special_ids){-1, -1, -1, "<mask>"};
    for (int i = 0; i < 2 && ids->mask < 0; i++) {
        ids->mask = find_piece(tokenizer, names[i][0]);
        if (ids->mask < 0)
            continue;
        ids->mask_text = names[i][0];
        ids->begin = find_piece(tokenizer, names[i][1]);
        ids->end = find_piece(tokenizer, names[i][2]);
    }
    if (mask >= 0)
        ids->mask = mask;
    if (ids->mask < 0) {
        error_set_code(err, ERROR_USAGE, "the tokenizer has no mask token (<mask> or [MASK])");
        return error_append(err, "; give the id of the mask token with --mask-id");
    }
    if (ids->begin < 0)
        ids->begin = tokenizer_bos(tokenizer);
    if (ids->end < 0)
        ids->end = tokenizer_eos(tokenizer);
    return 0;
}

static int reserve(struct masked_text *t, int64_t more, struct error *err)
{
    int64_t capacity = t->count + more + t->capacity;
    int32_t *ids, *masks;

    if (t->count + more <= t->capacity)
        return 0;
    ids = realloc(t->ids, (size_t)capacity * sizeof(*ids));
    if (ids)
        t->ids = ids;
    masks = ids ? realloc(t->masks, (size_t)capacity * sizeof(*masks)) : NULL;
    if (!masks)
        return error_set(err, "out of memory");
    t->masks = masks;
    t->capacity = capacity;
    return 0;
}

static int add(struct masked_text *t, int64_t id, struct error *err)
{
    if (id < 0)
        return 0;
    if (reserve(t, 1, err) < 0)
        return -1;
    t->ids[t->count++] = (int32_t)id;
    return 0;
}

/* The tokens of a part of the text; the mask after it takes the spaces before it. */
static int add_part(struct masked_text *t, struct encoder *encoder,
                    const struct tokenizer *tokenizer, const char *text, size_t length,
                    struct error *err)
{
    struct token_buffer ids = {0};
    int rc = 0;

    /* Numbers do not begin with the space after a mask, other texts do. */
    while (length > 0 && *text == ' ' && !tokenizer_accepts(tokenizer, text, length)) {
        text++;
        length--;
    }
    if (length > 0)
        rc = tokenizer_encode(encoder, text, length, &ids, err);
    if (rc == 0)
        rc = reserve(t, (int64_t)ids.count, err);
    for (size_t i = 0; i < ids.count && rc == 0; i++)
        t->ids[t->count++] = tokenizer_id_size(tokenizer) == 2 ? ((const uint16_t *)ids.ids)[i]
                                                               : ((const int32_t *)ids.ids)[i];
    token_buffer_clear(&ids);
    return rc;
}

int masked_text_make(struct masked_text *t, struct encoder *encoder,
                     const struct tokenizer *tokenizer, const struct special_ids *ids,
                     const char *text, struct error *err)
{
    const char *at = text, *mask;

    *t = (struct masked_text){.text = strdup(text)};
    if (!t->text)
        return error_set(err, "out of memory");
    if (add(t, ids->begin, err) < 0)
        return -1;
    while ((mask = strstr(at, ids->mask_text))) {
        size_t length = (size_t)(mask - at);

        while (length > 0 && at[length - 1] == ' ')
            length--;
        if (add_part(t, encoder, tokenizer, at, length, err) < 0 || add(t, ids->mask, err) < 0)
            return -1;
        t->masks[t->mask_count++] = (int32_t)(t->count - 1);
        at = mask + strlen(ids->mask_text);
    }
    if (add_part(t, encoder, tokenizer, at, strlen(at), err) < 0)
        return -1;
    return add(t, ids->end, err);
}

void masked_text_clear(struct masked_text *t)
{
    free(t->text);
    free(t->ids);
    free(t->masks);
    memset(t, 0, sizeof(*t));
}
