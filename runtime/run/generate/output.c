/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

/* Length in bytes of the UTF-8 character at 'text', 0 if it is invalid. */
static size_t character(const unsigned char *text, size_t length)
{
    size_t size = text[0] < 0x80                      ? 1
                  : text[0] >= 0xC2 && text[0] < 0xE0 ? 2
                  : (text[0] & 0xF0) == 0xE0          ? 3
                  : text[0] >= 0xF0 && text[0] < 0xF5 ? 4
                                                      : 0;

    if (size == 0 || size > length)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    if ((text[0] == 0xE0 && text[1] < 0xA0) || (text[0] == 0xED && text[1] >= 0xA0) ||
        (text[0] == 0xF0 && text[1] < 0x90) || (text[0] == 0xF4 && text[1] >= 0x90))
        return 0;
    return size;
}

void output_string(FILE *stream, const char *data, size_t length)
{
    const unsigned char *text = (const unsigned char *)data;

    putc('"', stream);
    for (size_t i = 0; i < length;) {
        size_t size = character(text + i, length - i);

        if (size == 0)
            fputs("\xEF\xBF\xBD", stream);
        else if (text[i] == '"' || text[i] == '\\')
            fprintf(stream, "\\%c", text[i]);
        else if (text[i] == '\n')
            fputs("\\n", stream);
        else if (text[i] < 0x20 || text[i] == 0x7F)
            fprintf(stream, "\\u%04x", text[i]);
        else
            fwrite(text + i, 1, size, stream);
        i += size ? size : 1;
    }
    putc('"', stream);
}

static void print_ids(FILE *stream, const struct text *text, int64_t from, int64_t to)
{
    putc('[', stream);
    for (int64_t i = from; i < to; i++)
        fprintf(stream, "%s%" PRId32, i > from ? ", " : "", text->ids[i]);
    putc(']', stream);
}

/* {"prompt": "...", "text": "...", "prompt_tokens": [...], "tokens": [...], "finish": "length"} */
static int show_json(struct output *o, const struct text *text, struct error *err)
{
    struct text_buffer prompt = {0}, all = {0};
    size_t common = 0;
    int rc = decode(o, text, 0, text->prompt, &prompt, err);

    if (rc == 0)
        rc = decode(o, text, 0, text->length, &all, err);
    if (rc == 0) {
        while (common < prompt.length && common < all.length &&
               prompt.data[common] == all.data[common])
            common++;
        fputs("{\"prompt\": ", o->stream);
        output_string(o->stream, prompt.data, prompt.length);
        fputs(", \"text\": ", o->stream);
        output_string(o->stream, all.data + common, all.length - common);
        fputs(", \"prompt_tokens\": ", o->stream);
        print_ids(o->stream, text, 0, text->prompt);
        fputs(", \"tokens\": ", o->stream);
        print_ids(o->stream, text, text->prompt, text->length);
        fprintf(o->stream, ", \"finish\": \"%s\"}\n",
                text->finish == FINISH_STOP ? "stop" : "length");
    }
    text_buffer_clear(&prompt);
    text_buffer_clear(&all);
    return rc;
}

/* Decode the whole text again after each token, because a token's text may depend on those before
 * it. */
static int show_text(struct output *o, const struct text *text, struct error *err)
{
    struct text_buffer all = {0};
    int rc = decode(o, text, 0, text->length, &all, err);

    if (rc == 0 && !o->begun && o->before + o->at > 0)
        putc('\n', o->stream);
    o->begun = 1;
    if (rc == 0 && all.length > o->shown) {
        fwrite(all.data + o->shown, 1, all.length - o->shown, o->stream);
        o->shown = all.length;
    }
    if (rc == 0 && text->finish != FINISH_NOT)
        putc('\n', o->stream);
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
        o->begun = 0;
    }
    if (fflush(o->stream) != 0 || ferror(o->stream))
        return error_set_errno(err, errno, "cannot write to standard output");
    return 0;
}
