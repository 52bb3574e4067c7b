/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of option tables. Whoever includes this defines AT(field), the offset of a member of the
 * target. Further columns follow the help text by their names:
 *
 *     #define AT(field) offsetof(struct words, field)
 *     static const struct option table[] = {
 *         HEADING("Output"),
 *         TEXT("save", save, "DIR", "where to save checkpoints"),
 *         RANGE("save-interval", interval, 1, 1000, "steps between checkpoints", .needs = "save"),
 *         {0},
 *     };
 */
#ifndef MEGATRON_OPTION_ROWS_H
#define MEGATRON_OPTION_ROWS_H

#include "option.h"

#define OPTION_ROW(name_, type_, offset_, argument_, ...)                               \
    {                                                                                   \
        .name = (name_), .type = (type_), .offset = (offset_), .argument = (argument_), \
        .help = __VA_ARGS__                                                             \
    }
#define FLAG(name, field, ...)   OPTION_ROW(name, OPTION_FLAG, AT(field), NULL, __VA_ARGS__)
#define UNFLAG(name, field, ...) OPTION_ROW(name, OPTION_UNFLAG, AT(field), NULL, __VA_ARGS__)
#define SET(name, field, value, ...) \
    OPTION_ROW(name, OPTION_SET, AT(field), NULL, __VA_ARGS__, .min = (value))
#define NUMBER(name, field, argument, low, high, ...) \
    OPTION_ROW(name, OPTION_INT, AT(field), argument, __VA_ARGS__, .min = (low), .max = (high))
#define RANGE(name, field, low, high, ...) NUMBER(name, field, "N", low, high, __VA_ARGS__)
#define INT(name, field, low, ...)         RANGE(name, field, low, INT64_MAX, __VA_ARGS__)
#define SIZE(name, field, low, ...)        RANGE(name, field, low, INT32_MAX, __VA_ARGS__)
#define BYTES(name, field, argument, low, high, ...) \
    OPTION_ROW(name, OPTION_BYTES, AT(field), argument, __VA_ARGS__, .min = (low), .max = (high))
#define QUANTITY(name, field, argument, ...) \
    OPTION_ROW(name, OPTION_REAL, AT(field), argument, __VA_ARGS__)
#define REAL(name, field, ...) QUANTITY(name, field, "X", __VA_ARGS__)
#define TEXT(name, field, argument, ...) \
    OPTION_ROW(name, OPTION_TEXT, AT(field), argument, __VA_ARGS__)
#define VALUES(name, field, argument, ...) \
    OPTION_ROW(name, OPTION_LIST, AT(field), argument, __VA_ARGS__)
#define TEXTS(name, field, argument, ...) \
    OPTION_ROW(name, OPTION_TEXTS, AT(field), argument, __VA_ARGS__)
#define WORD(name, field, argument, words, ...) \
    OPTION_ROW(name, OPTION_CHOICE, AT(field), argument, __VA_ARGS__, .choices = (words))
#define CHOICE(name, field, words, ...) WORD(name, field, NULL, words, __VA_ARGS__)
#define EACH_LAYER(name, field, ...) \
    OPTION_ROW(name, OPTION_LAYERS, AT(field), "PATTERN", __VA_ARGS__)
#define HEADING(text)          OPTION_ROW(text, OPTION_HEADING, 0, NULL, NULL)
#define ALIAS(name, of)        OPTION_ROW(name, OPTION_ALIAS, 0, NULL, NULL, .same = (of))
#define SHORT(letter, of)      OPTION_ROW(letter, OPTION_SHORT, 0, NULL, NULL, .same = (of))
#define IGNORED(name, because) OPTION_ROW(name, OPTION_IGNORED, 0, NULL, because)
#define RENAMED(name, now)     OPTION_ROW(name, OPTION_RENAMED, 0, NULL, now)
#define ABSENT(name, instead)  OPTION_ROW(name, OPTION_ABSENT, 0, NULL, instead)

#endif
