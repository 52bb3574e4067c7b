/* SPDX-License-Identifier: Apache-2.0 */
#include "yaml_config.h"
#include "lib/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_BYTES = 16 << 20, LONGEST = 4096 };

/* Names of megatron-core's configuration that are other options of the command line, set by this
 * value, or by any. A value without an option is the default; other values are wrong. */
static const struct {
    const char *key, *value, *option;
} other_names[] = {
    {"add-bias-linear", "false", "disable-bias-linear"},
    {"add-bias-linear", "true", NULL},
    {"gated-linear-unit", "true", "swiglu"},
    {"gated-linear-unit", "false", NULL},
    {"activation-func", "swiglu", "swiglu"},
    {"activation-func", "squaredrelu", "squared-relu"},
    {"activation-func", "gelu", NULL},
    {"layernorm-epsilon", NULL, "norm-epsilon"},
    {"fp8", NULL, "fp8-format"},
    /* Other values are other models. */
    {"num-experts", "1", NULL},
    {"num-moe-experts", "1", NULL},
    {"multi-latent-attention", "false", NULL},
    {"fp32-residual-connection", "false", NULL},
    {"apply-residual-connection-post-layernorm", "false", NULL},
};

static int add(struct yaml_words *words, const char *text, struct error *err)
{
    char **items = realloc(words->items, (words->count + 1) * sizeof(*items));
    char *copy = items ? strdup(text) : NULL;

    if (items)
        words->items = items;
    if (!copy)
        return error_set(err, "out of memory");
    words->items[words->count++] = copy;
    return 0;
}

/* Add 'text' with the environment variables that it names as ${NAME}, as Megatron-LM does. */
static int add_value(struct yaml_words *words, const char *text, struct error *err)
{
    char *whole = NULL;
    size_t size;
    FILE *stream = open_memstream(&whole, &size);
    int rc = 0;

    if (!stream)
        return error_set(err, "out of memory");
    while (*text && rc == 0) {
        const char *end = strncmp(text, "${", 2) == 0 ? strchr(text, '}') : NULL, *value;
        char name[256];

        if (!end) {
            fputc(*text++, stream);
            continue;
        }
        snprintf(name, sizeof(name), "%.*s", (int)(end - text - 2), text + 2);
        value = getenv(name);
        if (value)
            fputs(value, stream);
        else
            rc = error_set_code(err, ERROR_USAGE,
                                "the environment variable %.60s is not set; export it, or correct "
                                "the line",
                                name);
        text = end + 1;
    }
    if (fclose(stream) != 0 && rc == 0)
        rc = error_set(err, "out of memory");
    if (rc == 0)
        rc = add(words, whole, err);
    free(whole);
    return rc;
}

void yaml_words_clear(struct yaml_words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->items[i]);
    free(words->items);
    memset(words, 0, sizeof(*words));
}

static const struct option *find(const struct option *table, const char *name)
{
    for (; table->name; table++)
        if (table->type != OPTION_HEADING && strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

/* Remove quotes, or a comment and the spaces around the text. */
static char *trim(char *text)
{
    size_t length;

    text += strspn(text, " \t");
    if (*text == '"' || *text == '\'') {
        char *end = strchr(text + 1, *text);

        if (end)
            *end = '\0';
        return text + 1;
    }
    for (char *c = text; *c; c++)
        if (*c == '#' && (c == text || c[-1] == ' ' || c[-1] == '\t'))
            *c = '\0';
    length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* 1, 0, or -1 if it is neither. YAML 1.1, which Megatron-LM reads, has several words for both. */
static int read_truth(const char *text)
{
    static const char *const words[][2] = {{"false", "true"}, {"no", "yes"}, {"off", "on"}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        for (int truth = 0; truth < 2; truth++)
            if (strcasecmp(text, words[i][truth]) == 0)
                return truth;
    return -1;
}

static int is_nothing(const char *text)
{
    return !*text || strcasecmp(text, "null") == 0 || strcasecmp(text, "none") == 0 ||
           strcmp(text, "~") == 0;
}

/* "[a, b]" as words. */
static int add_list(struct yaml_words *words, char *text, struct error *err)
{
    char *rest = NULL;

    text++;
    text[strcspn(text, "]")] = '\0';
    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
        if (add_value(words, trim(word), err) < 0)
            return -1;
    return 0;
}

static int is_flag(const struct option *row)
{
    return row->type == OPTION_FLAG || row->type == OPTION_UNFLAG || row->type == OPTION_SET;
}

static int add_option(struct yaml_words *words, const struct option *row, char *value,
                      struct error *err)
{
    char name[160];

    if (is_flag(row)) {
        int truth = read_truth(value);

        if (truth < 0)
            return error_set_code(err, ERROR_USAGE, "%s: \"%.60s\" is not true or false; write one",
                                  row->name, value);
        if (!truth)
            return 0;
        snprintf(name, sizeof(name), "--%s", row->name);
        return add(words, name, err);
    }
    snprintf(name, sizeof(name), "--%s", row->name);
    if (add(words, name, err) < 0)
        return -1;
    return *value == '[' ? add_list(words, value, err) : add_value(words, value, err);
}

/* The value in the words of other_names. */
static const char *plain(const char *value)
{
    int truth = read_truth(value);

    return truth < 0 ? value : truth ? "true" : "false";
}

/* Set '*row' to the option of a key, or to NULL if there is none or this value does not set it.
 * '*known': is there such a key? */
static int option_of(const struct option *table, const char *key, const char *value,
                     const struct option **row, int *known, struct error *err)
{
    int matches = 0, listed = 0;

    *row = find(table, key);
    if (*row && (*row)->type == OPTION_ABSENT)
        *row = NULL;
    *known = *row != NULL;
    for (size_t i = 0; i < sizeof(other_names) / sizeof(other_names[0]) && !*row; i++) {
        if (strcmp(key, other_names[i].key) != 0)
            continue;
        *known = listed = 1;
        if (other_names[i].value && strcasecmp(plain(value), other_names[i].value) != 0)
            continue;
        matches = 1;
        if (other_names[i].option)
            *row = find(table, other_names[i].option);
    }
    if (listed && !matches)
        return error_set_code(err, ERROR_USAGE,
                              "%s: %.60s is not supported; correct it, or drop the line", key,
                              value);
    if (*row && (*row)->type == OPTION_IGNORED)
        *row = NULL;
    return 0;
}

static void add_unknown(struct yaml_words *words, const char *key)
{
    size_t length = strlen(words->unknown);

    snprintf(words->unknown + length, sizeof(words->unknown) - length, " %s", key);
}

static int take_pair(struct yaml_words *words, const struct option *table, char *key, char *value,
                     struct error *err)
{
    const struct option *row;
    int known;
    char truth[] = "true";

    for (char *c = key; *c; c++)
        *c = *c == '_' ? '-' : *c;
    if (is_nothing(value))
        return 0;
    if (option_of(table, key, value, &row, &known, err) < 0)
        return -1;
    if (!known && read_truth(value) != 0 && strcmp(value, "0") != 0)
        add_unknown(words, key);
    if (!row)
        return 0;
    /* "add_bias_linear: false" sets the flag --disable-bias-linear. */
    return add_option(words, row, strcmp(row->name, key) != 0 && is_flag(row) ? truth : value, err);
}

/* One line, without its end. A line "- x" continues the list of the option before it, whose name is
 * in 'open'; its last byte tells whether the list has begun. */
static int take_line(struct yaml_words *words, const struct option *table, char *line, char *open,
                     struct error *err)
{
    char *text = line + strspn(line, " \t"), *colon;

    if (!*text || *text == '#' || *text == '\r' || strncmp(text, "---", 3) == 0)
        return 0;
    if (text[0] == '-' && (text[1] == ' ' || !text[1])) {
        char name[160];

        if (!find(table, open)) {
            if (open[127] == 0)
                add_unknown(words, open);
            open[127] = 1;
            return 0;
        }
        /* The first element brings the option's name. */
        snprintf(name, sizeof(name), "--%s", open);
        if (open[127] == 0 && add(words, name, err) < 0)
            return -1;
        open[127] = 1;
        return add_value(words, trim(text + 1), err);
    }
    colon = strchr(text, ':');
    if (!colon || (colon[1] && colon[1] != ' ' && colon[1] != '\t' && colon[1] != '\r'))
        return error_set_code(err, ERROR_USAGE, "\"%.60s\" is not \"key: value\"; correct the line",
                              text);
    *colon = '\0';
    for (char *c = text; *c; c++)
        *c = *c == '_' ? '-' : *c;
    snprintf(open, 127, "%.126s", text);
    open[127] = 0;
    return take_pair(words, table, text, trim(colon + 1), err);
}

int yaml_parse(const char *path, const char *text, const struct option *table,
               struct yaml_words *words, struct error *err)
{
    char line[LONGEST], open[128] = "";

    for (int number = 1; *text; number++) {
        size_t length = strcspn(text, "\n");

        if (length >= sizeof(line))
            return error_set_code(err, ERROR_USAGE, "%s:%d: the line is too long; shorten it", path,
                                  number);
        memcpy(line, text, length);
        line[length] = '\0';
        if (take_line(words, table, line, open, err) < 0)
            return error_prefix(err, "%s:%d", path, number);
        text += length;
        text += *text == '\n';
    }
    return 0;
}

/* Is one of the options in 'names', separated by '|', in these words? */
static int has_option(const char *const *words, size_t count, const char *names)
{
    for (const char *at = names; *at; at += strcspn(at, "|"), at += *at == '|') {
        char option[160];

        snprintf(option, sizeof(option), "--%.*s", (int)strcspn(at, "|"), at);
        for (size_t i = 0; i < count; i++)
            if (words[i] && option_after(words[i], option))
                return 1;
    }
    return 0;
}

/* Remove the options that have no effect without another one: files of Megatron-LM contain all of
 * its options. */
static void drop_idle(struct yaml_words *words, yaml_needs *needs, const char *const *argv,
                      size_t argc)
{
    size_t kept = 0, next;

    for (size_t i = 0; i < words->count; i = next) {
        const char *wanted = needs(words->items[i] + 2);
        int drop = wanted && !has_option(argv, argc, wanted) &&
                   !has_option((const char *const *)words->items, words->count, wanted);

        for (next = i + 1; next < words->count && strncmp(words->items[next], "--", 2) != 0;)
            next++;
        for (size_t j = i; j < next && drop; j++) {
            free(words->items[j]);
            words->items[j] = NULL;
        }
    }
    for (size_t i = 0; i < words->count; i++)
        if (words->items[i])
            words->items[kept++] = words->items[i];
    words->count = kept;
}

int yaml_expand(const struct option *table, yaml_needs *needs, int *argc, const char *const **argv,
                struct yaml_words *words, const char ***expanded, struct error *err)
{
    const char *path = NULL;
    struct file_bytes bytes = {0};
    size_t used = 0;
    int rc;

    *expanded = NULL;
    for (int i = 0; i < *argc && !path; i++) {
        if (strncmp((*argv)[i], "--yaml-cfg=", 11) == 0)
            path = (*argv)[i] + 11;
        else if (strcmp((*argv)[i], "--yaml-cfg") == 0 && i + 1 < *argc)
            path = (*argv)[i + 1];
    }
    if (!path)
        return 0;
    rc = file_read(path, MOST_BYTES, &bytes, err);
    if (rc == 0)
        rc = yaml_parse(path, bytes.data, table, words, err);
    file_bytes_clear(&bytes);
    if (rc < 0)
        return error_prefix(err, "--yaml-cfg");
    drop_idle(words, needs, *argv, (size_t)*argc);
    *expanded = calloc(words->count + (size_t)*argc + 1, sizeof(**expanded));
    if (!*expanded)
        return error_set(err, "out of memory");
    for (size_t i = 0; i < words->count; i++)
        (*expanded)[used++] = words->items[i];
    for (int i = 0; i < *argc; i++)
        (*expanded)[used++] = (*argv)[i];
    *argc = (int)used;
    *argv = *expanded;
    return 0;
}
