/* SPDX-License-Identifier: Apache-2.0 */
#include "fairseq_log.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct text {
    char *buffer;
    size_t size, used;
    const char *prefix; /* of the keys */
};

static void add(struct text *text, const char *format, ...)
{
    va_list args;
    int length;

    if (text->used >= text->size)
        return;
    va_start(args, format);
    length = vsnprintf(text->buffer + text->used, text->size - text->used, format, args);
    va_end(args);
    text->used += length > 0 ? (size_t)length : 0;
}

/* Python's round(value, digits), then "{:g}". */
static void add_value(struct text *text, const char *name, double value, int digits)
{
    char rounded[64];

    if (isnan(value)) {
        add(text, ", \"%s%s\": \"nan\"", text->prefix, name);
        return;
    }
    if (isinf(value)) {
        add(text, ", \"%s%s\": \"%sinf\"", text->prefix, name, value < 0 ? "-" : "");
        return;
    }
    if (digits >= 0) {
        snprintf(rounded, sizeof(rounded), "%.*f", digits, value);
        sscanf(rounded, "%lf", &value);
    }
    add(text, ", \"%s%s\": \"%g\"", text->prefix, name, value);
}

/* Three digits as Python prints them: 0.5, 1.0. */
static void add_update(struct text *text, double update)
{
    char digits[64];
    int length = snprintf(digits, sizeof(digits), "%.3f", update);

    while (length > 2 && digits[length - 1] == '0' && digits[length - 2] != '.')
        length--;
    add(text, "%.*s", length, digits);
}

static void begin(struct text *text, const char *tag, double when)
{
    time_t seconds = (time_t)when;
    struct tm local;
    char date[32];

    localtime_r(&seconds, &local);
    strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &local);
    add(text, "%s | INFO | %s | {", date, tag);
}

static void add_speed(struct text *text, const struct fairseq_line *l, int updates)
{
    double seconds = l->seconds > 0 ? l->seconds : 0, steps = l->steps > 0 ? (double)l->steps : 1;

    add_value(text, "wps", seconds > 0 ? l->tokens / seconds : 0, 1);
    if (updates)
        add_value(text, "ups", seconds > 0 ? (double)l->steps / seconds : 0, 2);
    add_value(text, "wpb", l->tokens / steps, 1);
    add_value(text, "bsz", l->sentences / steps, 1);
    add_value(text, "num_updates", (double)l->updates, -1);
}

static void add_training(struct text *text, const struct fairseq_line *l)
{
    double bits = l->loss / log(2);

    add_value(text, "loss", bits, 3);
    add_value(text, "ppl", exp2(bits), 2);
    add_speed(text, l, 1);
    add_value(text, "lr", l->lr, -1);
    add_value(text, "gnorm", l->norm, 3);
    if (l->clipped >= 0)
        add_value(text, "clip", 100 * l->clipped, 1);
    if (l->scale > 0)
        add_value(text, "loss_scale", l->scale, 4);
    add_value(text, "train_wall", l->train_wall, 0);
    add_value(text, "wall", l->wall, 0);
    add(text, "}");
}

void fairseq_line_format(const struct fairseq_line *l, double when, char *buffer, size_t size)
{
    struct text text = {buffer, size, 0, ""};

    begin(&text, "train_inner", when);
    add(&text, "\"epoch\": %" PRId64 ", \"update\": ", l->epoch);
    add_update(&text, l->update);
    add_training(&text, l);
}

void fairseq_line_epoch(const struct fairseq_line *l, double when, char *buffer, size_t size)
{
    struct text text = {buffer, size, 0, "train_"};

    begin(&text, "train", when);
    add(&text, "\"epoch\": %" PRId64, l->epoch);
    add_training(&text, l);
}

void fairseq_line_valid(const struct fairseq_line *l, const char *name, double best, double when,
                        char *buffer, size_t size)
{
    char prefix[32];
    struct text text = {buffer, size, 0, prefix};
    double bits = l->loss / log(2);

    snprintf(prefix, sizeof(prefix), "%s_", name);
    begin(&text, name, when);
    add(&text, "\"epoch\": %" PRId64, l->epoch);
    add_value(&text, "loss", bits, 3);
    add_value(&text, "ppl", exp2(bits), 2);
    add_speed(&text, l, 0);
    if (!isnan(best))
        add_value(&text, "best_loss", best / log(2), 3);
    add(&text, "}");
}
