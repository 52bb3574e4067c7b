/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"
#include "base/core/json_write.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <stdlib.h>

/* Decode ids 'from' .. 'to' - 1. */
static int decode(const struct output *o, const struct text *text, int64_t from, int64_t to,
                  struct text_buffer *out, struct error *err)
{
    int64_t *ids = xcalloc((size_t)(to - from + 1), sizeof(*ids));
    int rc;

    for (int64_t i = from; i < to; i++)
        ids[i - from] = text->ids[i];
    out->length = 0;
    rc = tokenizer_decode(o->tokenizer, ids, (size_t)(to - from), out, err);
    free(ids);
    return rc;
}

static void put_ids(struct json_writer *json, const char *name, const struct text *text,
                    int64_t from, int64_t to)
{
    json_open(json, name, '[');
    for (int64_t i = from; i < to; i++)
        json_put_integer(json, NULL, text->ids[i]);
    json_close(json);
}

/* {"prompt": "...", "text": "...", "prompt_tokens": [...], "tokens": [...], "finish": "length"} */
static int show_json(struct output *o, const struct text *text, struct error *err)
{
    struct json_writer json = {.stream = o->stream, .spaced = true};
    struct text_buffer prompt = {0}, all = {0};
    size_t common = 0;
    int rc = -1;

    if (decode(o, text, 0, text->prompt, &prompt, err) < 0 ||
        decode(o, text, 0, text->length, &all, err) < 0)
        goto out;
    while (common < prompt.length && common < all.length && prompt.data[common] == all.data[common])
        common++;
    json_open(&json, NULL, '{');
    json_put_text(&json, "prompt", prompt.data, prompt.length);
    json_put_text(&json, "text", all.data + common, all.length - common);
    put_ids(&json, "prompt_tokens", text, 0, text->prompt);
    put_ids(&json, "tokens", text, text->prompt, text->length);
    json_put_string(&json, "finish", text->finish == FINISH_STOP ? "stop" : "length");
    json_close(&json);
    json_end_line(&json);
    rc = 0;
out:
    text_buffer_clear(&prompt);
    text_buffer_clear(&all);
    return rc;
}

/* The whole text is decoded again after each token, because what a token becomes may depend on
 * those before it. */
static int show_text(struct output *o, const struct text *text, struct error *err)
{
    struct text_buffer all = {0};
    int rc = decode(o, text, 0, text->length, &all, err);

    if (rc == 0) {
        if (!o->begun && o->before + o->at > 0)
            putc('\n', o->stream);
        o->begun = true;
        if (all.length > o->shown) {
            fwrite(all.data + o->shown, 1, all.length - o->shown, o->stream);
            o->shown = all.length;
        }
        if (text->finish != FINISH_NOT)
            putc('\n', o->stream);
    }
    text_buffer_clear(&all);
    return rc;
}

int output_show(struct output *o, struct error *err)
{
    while (o->at < o->count) {
        const struct text *text = &o->texts[o->at];

        if ((o->json || !o->growing) && text->finish == FINISH_NOT)
            break;
        if ((o->json ? show_json : show_text)(o, text, err) < 0)
            return -1;
        if (text->finish == FINISH_NOT)
            break;
        o->at++;
        o->shown = 0;
        o->begun = false;
    }
    if (fflush(o->stream) != 0 || ferror(o->stream))
        return error_set_errno(err, errno, "cannot write to standard output");
    return 0;
}
