/* SPDX-License-Identifier: Apache-2.0 */
#include "fill_mask_private.h"

#include <string.h>

/* The names of RoBERTa's and of BERT's vocabularies. */
int special_ids_find(struct special_ids *ids, const struct tokenizer *tokenizer, int64_t mask,
                     struct error *err)
{
    static const char *const names[][3] = {{"<mask>", "<s>", "</s>"}, {"[MASK]", "[CLS]", "[SEP]"}};

    *ids = (struct special_ids){-1, -1, -1, "<mask>"};
    for (int i = 0; i < 2 && ids->mask < 0; i++) {
        ids->mask = tokenizer_token(tokenizer, names[i][0]);
        if (ids->mask < 0)
            continue;
        ids->mask_text = names[i][0];
        ids->begin = tokenizer_token(tokenizer, names[i][1]);
        ids->end = tokenizer_token(tokenizer, names[i][2]);
    }
    if (mask >= 0)
        ids->mask = mask;
    if (ids->mask < 0)
        return error_set_code(err, ERROR_USAGE,
                              "the tokenizer has no mask token (<mask> or [MASK]); give the id of "
                              "the mask token with --mask-id");
    if (ids->begin < 0)
        ids->begin = tokenizer_bos(tokenizer);
    if (ids->end < 0)
        ids->end = tokenizer_eos(tokenizer);
    return 0;
}

static void add(struct masked_text *t, int64_t id)
{
    if (id >= 0)
        *list_add(&t->ids) = (int32_t)id;
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
    for (size_t i = 0; i < ids.count && rc == 0; i++)
        add(t, token_buffer_at(&ids, i, tokenizer_id_size(tokenizer)));
    token_buffer_clear(&ids);
    return rc;
}

int masked_text_make(struct masked_text *t, struct encoder *encoder,
                     const struct tokenizer *tokenizer, const struct special_ids *ids,
                     const char *text, struct error *err)
{
    const char *at = text, *mask;

    *t = (struct masked_text){.text = text};
    add(t, ids->begin);
    while ((mask = strstr(at, ids->mask_text))) {
        size_t length = (size_t)(mask - at);

        while (length > 0 && at[length - 1] == ' ')
            length--;
        if (add_part(t, encoder, tokenizer, at, length, err) < 0)
            return -1;
        *list_add(&t->masks) = (int32_t)t->ids.count;
        add(t, ids->mask);
        at = mask + strlen(ids->mask_text);
    }
    if (add_part(t, encoder, tokenizer, at, strlen(at), err) < 0)
        return -1;
    add(t, ids->end);
    return 0;
}

void masked_text_clear(struct masked_text *t)
{
    list_free(&t->ids);
    list_free(&t->masks);
}
