/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "wiki_expand.h"
#include "wiki_inline.h"
#include "wiki_tags.h"
#include "base/core/list.h"

#include <stdlib.h>

enum frame_kind { FRAME_TEMPLATE, FRAME_PARAMETER, FRAME_LINK };

struct frame {
    size_t start; /* offset of its brackets in the output */
    size_t pipes; /* index of its first pipe */
    enum frame_kind kind;
};

struct wiki_frames {
    struct frame *items;
    size_t count, room;
    LIST(size_t) pipes; /* of all open frames */
    size_t templates;   /* open frames other than links */
};

struct expand {
    struct wiki_look *look;
    struct wiki_frames *frames;
    struct wiki_buffer *out;
    const char *at, *end;
    struct wiki_call call;
    unsigned char missing[WIKI_TAGS]; /* of wiki_skip_opaque */
};

void wiki_frames_destroy(struct wiki_frames *frames)
{
    if (!frames)
        return;
    free(frames->items);
    list_free(&frames->pipes);
    free(frames);
}

static void push(struct expand *expand, enum frame_kind kind, size_t length)
{
    struct wiki_frames *frames = expand->frames;

    *list_add(frames) = (struct frame){expand->out->size, frames->pipes.count, kind};
    frames->templates += kind != FRAME_LINK;
    if (frames->count > expand->look->depth)
        expand->look->depth = frames->count;
    wiki_put(expand->out, expand->at, length);
    expand->at += length;
}

/* A pipe separates arguments if the innermost frame has arguments. */
static void take_pipe(struct expand *expand)
{
    struct wiki_frames *frames = expand->frames;

    if (frames->count > 0 && frames->items[frames->count - 1].kind != FRAME_LINK) {
        *list_add(&frames->pipes) = expand->out->size;
    }
    wiki_put_char(expand->out, '|');
    expand->at++;
}

static void pop(struct wiki_frames *frames)
{
    const struct frame *frame = &frames->items[--frames->count];

    frames->pipes.count = frame->pipes;
    frames->templates -= frame->kind != FRAME_LINK;
}

/* Outside a template, a parameter is its default. */
static void close_parameter(struct expand *expand, const struct frame *frame)
{
    struct wiki_frames *frames = expand->frames;
    struct wiki_buffer *out = expand->out;
    size_t from = out->size, to = out->size;

    if (frames->pipes.count > frame->pipes && frames->count <= WIKI_EXPAND_DEPTH &&
        expand->call.mode == WIKI_EXPAND_ALL) {
        from = frames->pipes.items[frame->pipes] + 1;
        to = frames->pipes.count > frame->pipes + 1 ? frames->pipes.items[frame->pipes + 1]
                                                    : out->size;
    }
    memmove(out->data + frame->start, out->data + from, to - from);
    out->size = frame->start + (to - from);
}

static void evaluate(struct expand *expand, const struct frame *frame)
{
    struct wiki_frames *frames = expand->frames;
    struct wiki_buffer *out = expand->out, *result = &expand->look->scratch;
    struct wiki_call *call = &expand->call;
    size_t begin = frame->start + 2, end, count = frames->pipes.count - frame->pipes;
    const size_t *pipes = frames->pipes.items + frame->pipes;

    result->size = 0;
    if (frames->count <= WIKI_EXPAND_DEPTH) {
        end = count > 0 ? pipes[0] : out->size;
        call->name = wiki_trim(wiki_span(out->data + begin, end - begin));
        call->count = count < WIKI_ARGUMENTS ? count : WIKI_ARGUMENTS;
        for (size_t i = 0; i < call->count; i++) {
            begin = pipes[i] + 1;
            end = i + 1 < count ? pipes[i + 1] : out->size;
            call->args[i] = wiki_span(out->data + begin, end - begin);
        }
        if (!wiki_function(call, result) && call->mode == WIKI_EXPAND_ALL)
            wiki_template(call, result);
    }
    out->size = frame->start;
    wiki_put(out, result->data, result->size);
    if (result->size == 0 && call->mode == WIKI_EXPAND_ALL)
        wiki_put_char(out, WIKI_DROPPED);
}

static void take_closing(struct expand *expand)
{
    struct wiki_frames *frames = expand->frames;
    struct frame frame;
    int three = expand->end - expand->at >= 3 && expand->at[2] == '}';

    /* An unclosed link inside a call is not a link. */
    while (frames->templates > 0 && frames->items[frames->count - 1].kind == FRAME_LINK)
        pop(frames);
    if (frames->templates == 0) {
        wiki_put(expand->out, expand->at, 2);
        expand->at += 2;
        return;
    }
    frame = frames->items[frames->count - 1];
    if (frame.kind == FRAME_PARAMETER && three) {
        close_parameter(expand, &frame);
        expand->at += 3;
    } else if (frame.kind == FRAME_PARAMETER) {
        /* {{{a}}: a brace, then a template. */
        frames->items[frames->count - 1].kind = FRAME_TEMPLATE;
        frames->items[frames->count - 1].start++;
        return;
    } else {
        evaluate(expand, &frame);
        expand->at += 2;
    }
    pop(frames);
}

static void take_opening(struct expand *expand)
{
    size_t count = 0;

    while (expand->at + count < expand->end && expand->at[count] == '{')
        count++;
    if (count == 1) {
        wiki_put_char(expand->out, '{');
        expand->at++;
        return;
    }
    /* The inner three of five braces are a parameter; four are two templates. */
    for (; count == 4 || count == 2 || count % 3 == 2; count -= 2)
        push(expand, FRAME_TEMPLATE, 2);
    for (; count >= 3 && count != 4; count -= 3)
        push(expand, FRAME_PARAMETER, 3);
    for (; count >= 2; count -= 2)
        push(expand, FRAME_TEMPLATE, 2);
}

static void take_angle(struct expand *expand)
{
    /* As in MediaWiki, a comment that is never closed extends to the end of the page. */
    const char *stop = wiki_skip_opaque(expand->at, expand->end, OPAQUE_PAGE, expand->missing);

    if (!stop)
        stop = expand->at + 1;
    if (!wiki_begins(expand->at, expand->end, "<!--"))
        wiki_put(expand->out, expand->at, (size_t)(stop - expand->at));
    expand->at = stop;
}

static void take_bracket(struct expand *expand)
{
    struct wiki_frames *frames = expand->frames;
    int open = *expand->at == '[';

    if (expand->end - expand->at < 2 || expand->at[1] != *expand->at) {
        wiki_put_char(expand->out, *expand->at++);
    } else if (open) {
        push(expand, FRAME_LINK, 2);
    } else {
        wiki_put(expand->out, expand->at, 2);
        expand->at += 2;
        if (frames->count > 0 && frames->items[frames->count - 1].kind == FRAME_LINK)
            pop(frames);
    }
}

/* Brackets and braces differ by one bit; so do the pipe and the backslash, which means nothing. */
static inline wiki_matches marks(wiki_bytes bytes)
{
    return wiki_in(bytes | 0x20, '{', '}') | (bytes == '<');
}

/* Find the first mark from 'at' on, or the end. Functions outside calls ignore links. */
static inline const char *find_mark(const struct expand *expand)
{
    const char *at = expand->at, *end = expand->end;

    if (expand->call.mode == WIKI_EXPAND_FUNCTIONS && expand->frames->count == 0)
        return wiki_scan(at, end, '{', '}');
    return wiki_find_mark(at, end, marks);
}

void wiki_expand(struct wiki_look *look, const struct wiki_page_info *page,
                 const struct wiki_buffer *in, struct wiki_buffer *out, enum wiki_expand_mode mode)
{
    struct expand expand = {.look = look, .out = out, .at = in->data, .end = in->data + in->size};

    if (!look->frames)
        look->frames = xcalloc(1, sizeof(*look->frames));
    expand.frames = look->frames;
    expand.frames->count = expand.frames->pipes.count = expand.frames->templates = 0;
    expand.call.mode = mode;
    expand.call.page = page;
    while (expand.at < expand.end) {
        const char *from = expand.at;

        expand.at = find_mark(&expand);
        wiki_copy(out, from, (size_t)(expand.at - from));
        if (expand.at == expand.end)
            break;
        if (*expand.at == '{')
            take_opening(&expand);
        else if (*expand.at == '}' && expand.end - expand.at > 1 && expand.at[1] == '}')
            take_closing(&expand);
        else if (*expand.at == '|')
            take_pipe(&expand);
        else if (*expand.at == '<' && mode == WIKI_EXPAND_ALL)
            take_angle(&expand);
        else if (*expand.at == '[' || *expand.at == ']')
            take_bracket(&expand);
        else
            wiki_put_char(out, *expand.at++);
    }
}

/* --- Arguments -------------------------------------------------------------------------------- */

/* The end of an argument's name, an equals sign outside of links and tags, or NULL. */
static const char *equals_sign(struct wiki_span arg)
{
    const char *end = arg.data + arg.size;

    for (const char *at = arg.data; at < end && *at != '[' && *at != '<'; at++)
        if (*at == '=')
            return at;
    return NULL;
}

struct wiki_span wiki_positional(const struct wiki_call *call, size_t position)
{
    size_t number = 0;

    for (size_t i = 0; i < call->count; i++) {
        struct wiki_span arg = call->args[i], name;
        const char *equals = equals_sign(arg);

        if (!equals && ++number == position)
            return wiki_trim(arg);
        if (!equals)
            continue;
        name = wiki_trimmed(arg.data, equals);
        if (name.size == 1 && name.data[0] == (char)('0' + position) && position < 10)
            return wiki_trimmed(equals + 1, arg.data + arg.size);
    }
    return wiki_span("", 0);
}

struct wiki_span wiki_named(const struct wiki_call *call, const char *name)
{
    for (size_t i = call->count; i-- > 0;) {
        struct wiki_span arg = call->args[i];
        const char *equals = equals_sign(arg);

        if (equals && wiki_is(wiki_trimmed(arg.data, equals), name))
            return wiki_trimmed(equals + 1, arg.data + arg.size);
    }
    return wiki_span("", 0);
}
