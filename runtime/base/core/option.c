/* SPDX-License-Identifier: Apache-2.0 */
#include "option.h"
#include "lib/nearest.h"
#include "lib/parse.h"
#include "log.h"
#include "xmalloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct cursor {
    int argc, at;
    const char *const *argv;
};

/* Do the first 'length' characters match? '_' and '-' are equivalent. */
static bool same_letters(const char *name, const char *word, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char a = name[i] == '_' ? '-' : name[i], b = word[i] == '_' ? '-' : word[i];

        if (a != b || a == '\0')
            return false;
    }
    return true;
}

static bool same_name(const char *name, const char *word, size_t length)
{
    return same_letters(name, word, length) && name[length] == '\0';
}

const char *option_after(const char *word, const char *option)
{
    size_t length = strlen(option);

    if (strncmp(word, "--", 2) != 0 || !same_letters(option, word, length))
        return NULL;
    return word[length] == '\0' || word[length] == '=' ? word + length : NULL;
}

/* "wandb-*" matches all names that start with "wandb-". */
static bool has_prefix(const char *name, const char *word, size_t length)
{
    size_t size = strlen(name) - 1;

    return name[size] == '*' && length > size && same_letters(name, word, size);
}

static const struct option *find_option(const struct option *table, const char *word, size_t length)
{
    for (const struct option *row = table; row->name; row++)
        if (row->type != OPTION_HEADING &&
            (same_name(row->name, word, length) ||
             ((row->type == OPTION_IGNORED || row->type == OPTION_ABSENT) &&
              has_prefix(row->name, word, length))))
            return row;
    return NULL;
}

/* The row of an option by any of its names. */
static const struct option *resolve(const struct option *table, const struct option *row)
{
    return row && row->same ? find_option(table, row->same, strlen(row->same)) : row;
}

/* Prefix each of "a, b or c" except the first with dashes. */
static void add_dashes(const char *names, char *out, size_t size)
{
    size_t used = 0;

    for (const char *at = names; *at && used + 4 < size; at++) {
        out[used++] = *at;
        if (*at == ' ' && strncmp(at + 1, "or ", 3) != 0) {
            out[used++] = '-';
            out[used++] = '-';
        }
    }
    out[used] = '\0';
}

/* Are all words of 'part', at least two, words of 'whole'? Words are separated by dashes. */
static bool has_words(const char *whole, const char *part)
{
    int words = 0;

    while (*part) {
        size_t length = strcspn(part, "-_");
        const char *at = whole;

        while (*at && (strcspn(at, "-_") != length || strncmp(at, part, length) != 0)) {
            at += strcspn(at, "-_");
            at += *at != '\0';
        }
        if (!*at)
            return 0;
        words++;
        part += length;
        part += *part != '\0';
    }
    return words > 1;
}

/* Is 'name' probably a misspelled 'known'? Names that only look alike mean something else
 * (fp8-format, ckpt-format). */
static bool means_same(const char *name, const char *known)
{
    size_t length = strlen(name);

    return nearest_distance(name, known) <= (length < 5 ? 1 : 2) || has_words(known, name) ||
           has_words(name, known) || (length >= 3 && strncmp(known, name, length) == 0);
}

static int unknown_option(const struct option *table, const char *word, size_t length,
                          struct error *err)
{
    const char *names[1024];
    char name[128], near[256], dashed[288];
    size_t count = 0;

    snprintf(name, sizeof(name), "%.*s", (int)length, word);
    for (const struct option *row = table; row->name && count < 1024; row++)
        if (row->type != OPTION_HEADING && row->type != OPTION_SHORT &&
            row->type != OPTION_RENAMED && row->type != OPTION_ABSENT && !strchr(row->name, '*') &&
            means_same(name, row->name))
            names[count++] = row->name;
    if (nearest_names(name, names, count, near, sizeof(near)) > 0) {
        add_dashes(near, dashed, sizeof(dashed));
        return error_set(err, "unknown option --%s; did you mean --%s?", name, dashed);
    }
    return error_set(err, "unknown option --%s; --help lists all", name);
}

const char *option_word(const struct option *row, int value, int *length)
{
    const char *word = row->choices;

    if (value < row->min)
        return NULL;
    for (int number = (int)row->min; number < value && word; number++)
        word = strchr(word, '|') ? strchr(word, '|') + 1 : NULL;
    *length = word ? (int)strcspn(word, "|") : 0;
    return word;
}

static int read_choice(const struct option *row, const char *text, int *value, struct error *err)
{
    const char *word;
    int length;

    for (int number = (int)row->min; (word = option_word(row, number, &length)); number++)
        if ((size_t)length == strlen(text) && strncmp(word, text, (size_t)length) == 0) {
            *value = number;
            return 0;
        }
    return error_set(err, "--%s=%.100s is unknown; use %s", row->name, text, row->choices);
}

static void read_list(const char *first, struct cursor *cursor, struct option_list *list)
{
    size_t room = (size_t)(cursor->argc - cursor->at) + 1;
    const char **items = xcalloc(room, sizeof(*items));

    free(list->items);
    list->items = items;
    list->count = 0;
    if (first)
        items[list->count++] = first;
    while (cursor->at < cursor->argc && strncmp(cursor->argv[cursor->at], "--", 2) != 0)
        items[list->count++] = cursor->argv[cursor->at++];
}

enum { LAYERS_MOST = 4096, PERIOD_MOST = 47 }; /* JSON and double hold 53 bits */

struct layer_list {
    unsigned char bits[LAYERS_MOST];
    int count;
};

/* "[0,1]", "[0]*3", "(...)*2" and sums of these, from '*at' on. Returns -1 if it is none. */
static int read_layers(const char **at, struct layer_list *list)
{
    do {
        int first = list->count, length;
        long times = 1;

        if (**at == '(') {
            ++*at;
            if (read_layers(at, list) < 0 || *(*at)++ != ')')
                return -1;
        } else if (**at == '[') {
            do {
                if (((*at)[1] != '0' && (*at)[1] != '1') || list->count == LAYERS_MOST)
                    return -1;
                list->bits[list->count++] = (*at)[1] == '1';
                *at += 2;
            } while (**at == ',');
            if (*(*at)++ != ']')
                return -1;
        } else {
            return -1;
        }
        length = list->count - first;
        if (**at == '*')
            times = strtol(*at + 1, (char **)at, 10);
        if (times < 1 || times * length > LAYERS_MOST - first)
            return -1;
        for (; list->count < first + times * length; list->count++)
            list->bits[list->count] = list->bits[list->count - length];
    } while (**at == '+' && ++*at);
    return 0;
}

/* See option_has_layer. */
static int parse_layers(const struct option *row, const char *text, int64_t *value,
                        struct error *err)
{
    struct layer_list list = {.count = 0};
    char compact[1024], *end = compact;
    const char *at = compact;
    int period = 1;

    for (const char *c = text; *c && end < compact + sizeof(compact) - 1; c++)
        if (*c != ' ')
            *end++ = *c;
    *end = '\0';
    if (compact[0] >= '0' && compact[0] <= '9') {
        long every = strtol(compact, &end, 10);

        if (*end || every < 1 || every > PERIOD_MOST)
            return error_set(err, "--%s=%.100s must be a number from 1 to %d, or a list of layers",
                             row->name, text, PERIOD_MOST);
        *value = (int64_t)1 << every | (int64_t)1 << (every - 1);
        return 0;
    }
    if (read_layers(&at, &list) < 0 || *at)
        return error_set(err,
                         "--%s=%.100s is neither a number nor a list of 0 and 1 for each layer, "
                         "such as ([0]*3+[1])*4",
                         row->name, text);
    for (int i = 0; i < list.count && period <= PERIOD_MOST; i++)
        if (list.count % period != 0 || list.bits[i] != list.bits[i % period]) {
            period++;
            i = -1;
        }
    if (period > PERIOD_MOST)
        return error_set(err, "--%s: the list must repeat itself after at most %d layers",
                         row->name, PERIOD_MOST);
    *value = 0;
    for (int i = 0; i < period; i++)
        *value |= (int64_t)list.bits[i] << i;
    if (*value)
        *value |= (int64_t)1 << period;
    return 0;
}

static bool is_path(const char *argument)
{
    return strcmp(argument, "DIR") == 0 || strcmp(argument, "FILE") == 0;
}

static int check_range(const struct option *row, double value, struct error *err)
{
    static const struct {
        double least, most; /* the ends themselves: */
        bool has_least, has_most;
        const char *text;
    } ranges[] = {
        [REAL_ANY] = {-INFINITY, INFINITY, true, true, ""},
        [REAL_POSITIVE] = {0, INFINITY, false, true, "be greater than 0"},
        [REAL_NOT_NEGATIVE] = {0, INFINITY, true, true, "not be negative"},
        [REAL_BELOW_1] = {0, 1, true, false, "be at least 0 and less than 1"},
        [REAL_UP_TO_1] = {0, 1, false, true, "be greater than 0 and at most 1"},
        [REAL_FRACTION] = {0, 1, true, true, "be from 0 to 1"},
        [REAL_INSIDE] = {0, 1, false, false, "be greater than 0 and less than 1"},
    };

    if (value < ranges[row->range].least || value > ranges[row->range].most ||
        (value == ranges[row->range].least && !ranges[row->range].has_least) ||
        (value == ranges[row->range].most && !ranges[row->range].has_most))
        return error_set(err, "--%s=%g must %s", row->name, value, ranges[row->range].text);
    return 0;
}

static int read_value(const struct option *row, void *target, const char *text, struct error *err)
{
    char *slot = (char *)target + row->offset;
    struct option_list *list;
    char what[128];

    snprintf(what, sizeof(what), "--%s", row->name);
    switch (row->type) {
    case OPTION_INT: {
        int any = row->min == 0 && row->max == 0;

        return parse_int64(what, text, any ? INT64_MIN : row->min, any ? INT64_MAX : row->max,
                           (int64_t *)slot, err);
    }
    case OPTION_BYTES:
        return parse_size(what, text, 1024, row->min, row->max, (int64_t *)slot, err);
    case OPTION_REAL:
        return parse_double(what, text, (double *)slot, err) < 0
                   ? -1
                   : check_range(row, *(double *)slot, err);
    case OPTION_CHOICE:
        return read_choice(row, text, (int *)slot, err);
    case OPTION_LAYERS:
        return parse_layers(row, text, (int64_t *)slot, err);
    case OPTION_TEXTS:
        list = (struct option_list *)slot;
        list->items = xrealloc(list->items, list->count + 1, sizeof(*list->items));
        list->items[list->count++] = text;
        return 0;
    default:
        /* Probably an unset shell variable: "" would become the root directory when a name is
         * appended. */
        if (!text[0] && row->argument && is_path(row->argument))
            return error_set(err, "--%s is empty; give a path, or drop it", row->name);
        *(const char **)slot = text;
        return 0;
    }
}

static int take_option(const struct option *row, void *target, const char *inline_value,
                       struct cursor *cursor, struct options_result *result, struct error *err)
{
    struct option_list words = {NULL, 0};

    switch (row->type) {
    case OPTION_FLAG:
    case OPTION_UNFLAG:
    case OPTION_SET:
        if (inline_value)
            return error_set(err, "--%s takes no value; drop the = and what follows it", row->name);
        *(int *)((char *)target + row->offset) =
            row->type == OPTION_SET ? (int)row->min : row->type == OPTION_FLAG;
        return 0;
    case OPTION_LIST: {
        struct option_list *list = (struct option_list *)((char *)target + row->offset);

        read_list(inline_value, cursor, list);
        if (list->count == 0)
            return error_set(err, "--%s needs a value; write it after the option", row->name);
        return 0;
    }
    case OPTION_IGNORED:
        result->ignored[result->ignored_count].word = cursor->argv[cursor->at - 1];
        result->ignored[result->ignored_count++].because = row->help;
        read_list(inline_value, cursor, &words);
        free(words.items);
        return 0;
    case OPTION_RENAMED:
        return error_set(err, "--%s was renamed; use --%s", row->name, row->help);
    case OPTION_ABSENT: {
        const char *word = cursor->argv[cursor->at - 1];

        return error_set(err, "%.*s is an option of Megatron-LM that does not exist here; %s",
                         (int)strcspn(word, "="), word, row->help);
    }
    default:
        break;
    }
    if (!inline_value) {
        if (cursor->at >= cursor->argc)
            return error_set(err, "--%s needs a value; write it after the option", row->name);
        inline_value = cursor->argv[cursor->at++];
    }
    return read_value(row, target, inline_value, err);
}

/* --- Conditions ------------------------------------------------------------------------------ */

static bool is_condition_met(const struct options_result *result, const void *target,
                             const char *conditions);

/* Does one condition, of 'length' characters, hold? See struct option. */
static bool holds(const struct options_result *result, const void *target, const char *condition,
                  size_t length)
{
    size_t name = strcspn(condition, "=|");
    const struct option *row = resolve(result->table, find_option(result->table, condition, name));
    const char *slot;
    int value;
    struct error ignored;

    if (!row)
        return false;
    slot = (const char *)target + row->offset;
    if (name < length) {
        char word[64];

        snprintf(word, sizeof(word), "%.*s", (int)(length - name - 1), condition + name + 1);
        return read_choice(row, word, &value, &ignored) == 0 && value == *(const int *)slot &&
               (!row->idle || is_condition_met(result, target, row->idle));
    }
    return result->given[row - result->table] || (row->type == OPTION_FLAG && *(const int *)slot) ||
           (row->type == OPTION_TEXT && *(const char *const *)slot);
}

static bool is_condition_met(const struct options_result *result, const void *target,
                             const char *conditions)
{
    for (const char *at = conditions; *at; at += strcspn(at, "|"), at += *at == '|')
        if (holds(result, target, at, strcspn(at, "|")))
            return true;
    return false;
}

/* Write a condition as on the command line, "--style cosine". */
static const char *write_condition(const char *condition, char *text, size_t size)
{
    int name = (int)strcspn(condition, "=|"), length = (int)strcspn(condition, "|");

    snprintf(text, size, "--%.*s%s%.*s", name, condition, name < length ? " " : "",
             name < length ? length - name - 1 : 0, condition + name + 1);
    return text;
}

/* Options that refuse each other. */
static int check_pairs(const struct options_result *result, const void *target, struct error *err)
{
    char text[96];

    for (const struct option *row = result->table; row->name; row++) {
        if (!row->refuses || !result->given[row - result->table])
            continue;
        for (const char *at = row->refuses; *at; at += strcspn(at, "|"), at += *at == '|')
            if (holds(result, target, at, strcspn(at, "|")))
                return error_set(err, "--%s and %s cannot be used together; drop one", row->name,
                                 write_condition(at, text, sizeof(text)));
    }
    return 0;
}

int options_check(const struct options_result *result, const void *target, struct error *err)
{
    char text[96];

    for (const struct option *row = result->table; row->name; row++)
        if (row->needs && result->given[row - result->table] &&
            !is_condition_met(result, target, row->needs))
            return error_set_code(err, ERROR_USAGE, "--%s requires %s; add it, or drop --%s",
                                  row->name, write_condition(row->needs, text, sizeof(text)),
                                  row->name);
    return 0;
}

void options_note(const struct options_result *result, const void *target)
{
    char text[1024];

    for (size_t i = 0; i < result->ignored_count; i++) {
        const char *because = result->ignored[i].because;
        size_t used = 0, first = 0;

        while (result->ignored[first].because != because)
            first++;
        if (first < i)
            continue;
        for (size_t k = i; k < result->ignored_count && used < sizeof(text); k++)
            if (result->ignored[k].because == because)
                used += (size_t)snprintf(text + used, sizeof(text) - used, " %.*s",
                                         (int)strcspn(result->ignored[k].word, "="),
                                         result->ignored[k].word);
        log_note("ignored options:%s; %s", text, because);
    }
    for (const struct option *row = result->table; row->name; row++)
        if (row->idle && result->given[row - result->table] &&
            !is_condition_met(result, target, row->idle))
            log_warning("--%s has no effect without %s; drop it", row->name,
                        write_condition(row->idle, text, sizeof(text)));
}

/* --- Command lines --------------------------------------------------------------------------- */

static size_t count_rows(const struct option *table)
{
    size_t rows = 0;

    while (table[rows].name)
        rows++;
    return rows;
}

static void set_number(const struct option *row, void *target, double value)
{
    char *slot = (char *)target + row->offset;

    if (row->type == OPTION_REAL)
        *(double *)slot = value;
    else if (row->type == OPTION_INT || row->type == OPTION_BYTES)
        *(int64_t *)slot = (int64_t)value;
    else
        *(int *)slot = (int)value;
}

void options_default(const struct option *table, void *target)
{
    size_t rows = count_rows(table);

    /* Of several options for one value, the first has the default. */
    while (rows-- > 0) {
        const struct option *row = &table[rows];

        if (row->type == OPTION_FLAG)
            set_number(row, target, row->fallback);
        else if (row->type == OPTION_UNFLAG)
            set_number(row, target, 1);
        else if (row->fallback != 0)
            set_number(row, target, row->fallback);
        else if (row->type == OPTION_INT && *(int64_t *)((char *)target + row->offset) < row->min)
            set_number(row, target, OPTION_NOT_GIVEN);
    }
}

int options_preset(const struct options_result *result, void *target, const char *options,
                   struct error *err)
{
    struct cursor none = {0, 0, NULL};

    for (const char *at = options; at && *at; at += strcspn(at, "|"), at += *at == '|') {
        size_t name = strcspn(at, "=|"), length = strcspn(at, "|");
        const struct option *row = find_option(result->table, at, name);
        char value[64];

        if (!row)
            return error_bug(err, "a preset has an unknown option: %.40s", at);
        if (options_value_given(result, row))
            continue;
        snprintf(value, sizeof(value), "%.*s", name < length ? (int)(length - name - 1) : 0,
                 at + name + 1);
        if (take_option(row, target,
                        name == length             ? NULL
                        : row->type == OPTION_TEXT ? at + name + 1
                                                   : value,
                        &none, NULL, err) < 0)
            return -1;
    }
    return 0;
}

static int parse_words(const struct option *table, void *target, int argc, const char *const *argv,
                       struct options_result *result, struct error *err)
{
    struct cursor cursor = {argc, 0, argv};
    bool only_words = false;

    while (cursor.at < argc) {
        const char *word = argv[cursor.at++];
        const char *name, *equals;
        const struct option *row;
        size_t length;

        if (only_words || word[0] != '-' || word[1] == '\0') {
            result->words[result->word_count++] = word;
            continue;
        }
        if (strcmp(word, "--") == 0) {
            only_words = true;
            continue;
        }
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            result->help = true;
            return 0;
        }
        row = word[1] != '-' ? find_option(table, word + 1, strlen(word + 1)) : NULL;
        if (word[1] != '-' && (!row || row->type != OPTION_SHORT))
            return error_set(err, "unknown option %.100s; options begin with two dashes", word);
        name = word + 2;
        equals = strchr(name, '=');
        length = equals ? (size_t)(equals - name) : strlen(name);
        if (!row)
            row = find_option(table, name, length);
        if (!row || (row->type == OPTION_SHORT && word[1] == '-'))
            return unknown_option(table, name, length, err);
        row = resolve(table, row);
        if (take_option(row, target, equals ? equals + 1 : NULL, &cursor, result, err) < 0)
            return -1;
        result->given[row - table] = 1;
    }
    return 0;
}

int options_parse(const struct option *table, void *target, int argc, const char *const *argv,
                  struct options_result *result, struct error *err)
{
    memset(result, 0, sizeof(*result));
    result->table = table;
    result->rows = count_rows(table);
    result->given = xcalloc(result->rows, 1);
    result->words = xcalloc((size_t)argc + 1, sizeof(*result->words));
    result->ignored = xcalloc((size_t)argc, sizeof(*result->ignored));
    if (parse_words(table, target, argc, argv, result, err) == 0 &&
        (result->help || check_pairs(result, target, err) == 0))
        return 0;
    if (err)
        err->code = ERROR_USAGE;
    return -1;
}

bool options_given(const struct options_result *result, const char *name)
{
    const struct option *row =
        resolve(result->table, find_option(result->table, name, strlen(name)));

    return row && result->given[row - result->table];
}

bool options_value_given(const struct options_result *result, const struct option *row)
{
    for (size_t i = 0; i < result->rows; i++)
        if (result->given[i] && result->table[i].offset == row->offset &&
            result->table[i].type < OPTION_IGNORED)
            return true;
    return false;
}

void options_result_clear(struct options_result *result)
{
    free(result->words);
    free(result->ignored);
    free(result->given);
    memset(result, 0, sizeof(*result));
}

static void print_default(const struct option *row, const void *defaults, FILE *stream)
{
    const char *slot = defaults ? (const char *)defaults + row->offset : NULL;
    const char *word;
    int length;

    if (row->otherwise)
        fprintf(stream, " (default: %s)", row->otherwise);
    else if (!slot)
        return;
    else if (row->type == OPTION_REAL && *(const double *)slot > 0)
        fprintf(stream, " (default: %.10g)", *(const double *)slot);
    else if (row->type == OPTION_INT && *(const int64_t *)slot > 0)
        fprintf(stream, " (default: %" PRId64 ")", *(const int64_t *)slot);
    else if (row->type == OPTION_CHOICE && (word = option_word(row, *(const int *)slot, &length)))
        fprintf(stream, " (default: %.*s)", length, word);
}

static void print_row(const struct option *table, const struct option *row, const void *defaults,
                      FILE *stream)
{
    const struct option *main = resolve(table, row);
    const char *argument = main->argument  ? main->argument
                           : main->choices ? main->choices
                                           : "VALUE";
    int width;

    if (main->type == OPTION_FLAG || main->type == OPTION_UNFLAG || main->type == OPTION_SET)
        width = fprintf(stream, "  --%s", row->name);
    else
        width = fprintf(stream, "  --%s %s", row->name, argument);
    if (width > 33)
        fprintf(stream, "\n%34s", "");
    else
        fprintf(stream, "%*s", 34 - width, "");
    if (row != main)
        fprintf(stream, "same as --%s", row->same);
    if (row->help)
        fprintf(stream, "%s%s", row != main ? ": " : "", row->help);
    if (row == main)
        print_default(row, defaults, stream);
    fputc('\n', stream);
}

void options_print(const struct option *table, const void *defaults, FILE *stream)
{
    for (const struct option *row = table; row->name; row++) {
        if (row->type == OPTION_HEADING)
            fprintf(stream, "\n%s:\n", row->name);
        else if (row->type != OPTION_IGNORED && row->type != OPTION_RENAMED &&
                 row->type != OPTION_ABSENT && row->type != OPTION_SHORT)
            print_row(table, row, defaults, stream);
    }
}
