/* SPDX-License-Identifier: Apache-2.0 */
#include "fill_mask_private.h"
#include "output.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The text with 'token' at one mask; other masks stay. */
static int decode(const struct fill_mask_show *s, const struct masked_text *t, int64_t mask,
                  int32_t token, struct text_buffer *out, struct error *err)
{
    int64_t *ids = xcalloc((size_t)t->count, sizeof(*ids));
    size_t count = 0;
    int rc;

    for (int64_t i = 0; i < t->count; i++) {
        int64_t id = i == t->masks[mask] ? token : t->ids[i];
        int outer = (i == 0 && id == s->ids->begin) || (i == t->count - 1 && id == s->ids->end);

        if (!outer)
            ids[count++] = id;
    }
    out->length = 0;
    rc = tokenizer_decode(s->tokenizer, ids, count, out, err);
    free(ids);
    return rc;
}

static int show_one(const struct fill_mask_show *s, const struct masked_text *t, int64_t mask,
                    const struct guess *c, struct error *err)
{
    struct text_buffer word = {0}, sequence = {0};
    int64_t id = c->token;
    int rc = tokenizer_decode(s->tokenizer, &id, 1, &word, err);

    if (rc == 0)
        rc = decode(s, t, mask, c->token, &sequence, err);
    if (rc == 0 && s->json) {
        fprintf(s->stream, "{\"score\": %.9g, \"token\": %" PRId32 ", \"token_str\": ", c->score,
                c->token);
        output_string(s->stream, word.data, word.length);
        fprintf(s->stream, ", \"sequence\": ");
        output_string(s->stream, sequence.data, sequence.length);
        fprintf(s->stream, "}");
    } else if (rc == 0) {
        fprintf(s->stream, "%8.4f %8" PRId32 " %-16.*s %.*s\n", c->score, c->token,
                (int)word.length, word.data ? word.data : "", (int)sequence.length,
                sequence.data ? sequence.data : "");
    }
    text_buffer_clear(&word);
    text_buffer_clear(&sequence);
    return rc;
}

/* As transformers: a list of candidates, or with several masks a list of lists. */
int fill_mask_show(const struct fill_mask_show *s, const struct masked_text *t,
                   const struct guess *guesses, int64_t count, struct error *err)
{
    int several = t->mask_count > 1;

    if (!s->json)
        fprintf(s->stream, "%s\n", t->text);
    else if (several)
        fputc('[', s->stream);
    for (int64_t mask = 0; mask < t->mask_count; mask++) {
        if (s->json)
            fprintf(s->stream, mask > 0 ? ", [" : "[");
        else if (several)
            fprintf(s->stream, "mask %" PRId64 ":\n", mask + 1);
        for (int64_t i = 0; i < count; i++) {
            if (s->json && i > 0)
                fprintf(s->stream, ", ");
            if (show_one(s, t, mask, &guesses[mask * count + i], err) < 0)
                return -1;
        }
        if (s->json)
            fprintf(s->stream, "]");
    }
    fprintf(s->stream, s->json ? several ? "]\n" : "\n" : "\n");
    return ferror(s->stream) ? error_set_errno(err, errno, "cannot write the result") : 0;
}
