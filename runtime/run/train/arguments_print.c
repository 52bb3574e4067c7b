/* SPDX-License-Identifier: Apache-2.0 */
/* The table of arguments at the start of a run, as Megatron prints it. */
#include "arguments.h"
#include "run/checkpoint/directory.h"
#include "train.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char head[] = "------------------------ arguments ------------------------\n";
static const char foot[] = "-------------------- end of arguments ---------------------\n";

void arguments_print_value(const struct arguments *a, const struct option *row, FILE *stream)
{
    const char *slot = (const char *)a + row->offset;
    const struct option_list *list = (const struct option_list *)slot;
    const char *word;
    int length;

    switch (row->type) {
    case OPTION_INT: /* a negative number means "not given" unless the option takes one */
        if (*(const int64_t *)slot < 0 && row->min >= 0)
            fprintf(stream, " None\n");
        else
            fprintf(stream, " %" PRId64 "\n", *(const int64_t *)slot);
        break;
    case OPTION_LAYERS: /* those of one period */
        for (int64_t i = 0; *(const int64_t *)slot >> i > 1; i++)
            fprintf(stream, " %d", option_has_layer(*(const int64_t *)slot, i));
        fprintf(stream, *(const int64_t *)slot ? "\n" : " None\n");
        break;
    case OPTION_REAL:
        if (*(const double *)slot < 0)
            fprintf(stream, " None\n");
        else
            fprintf(stream, " %g\n", *(const double *)slot);
        break;
    case OPTION_TEXT:
        fprintf(stream, " %s\n", *(const char *const *)slot ? *(const char *const *)slot : "None");
        break;
    case OPTION_LIST:
        for (size_t i = 0; i < list->count; i++)
            fprintf(stream, " %s", list->items[i]);
        fprintf(stream, list->count ? "\n" : " None\n");
        break;
    case OPTION_UNFLAG:
        fprintf(stream, " %s\n", *(const int *)slot ? "False" : "True");
        break;
    case OPTION_SET:
        fprintf(stream, " %s\n", *(const int *)slot == row->min ? "True" : "False");
        break;
    case OPTION_CHOICE:
        word = option_word(row, *(const int *)slot, &length);
        fprintf(stream, " %.*s\n", word ? length : 4, word ? word : "None");
        break;
    default:
        fprintf(stream, " %s\n", *(const int *)slot ? "True" : "False");
    }
}

static void print_line(const struct arguments *a, const struct option *row, FILE *stream)
{
    char name[64];

    snprintf(name, sizeof(name), "%s ", row->name);
    for (char *c = name; *c; c++)
        if (*c == '-')
            *c = '_';
    fprintf(stream, "  %s", name);
    for (size_t i = strlen(name); i < 48; i++)
        fputc('.', stream);
    arguments_print_value(a, row, stream);
}

static void print_table(const struct arguments *a, FILE *stream)
{
    for (const struct option *row = arguments_table; row->name; row++)
        if (row->type > OPTION_HEADING && row->type < OPTION_IGNORED)
            print_line(a, row, stream);
}

void arguments_print(const struct arguments *arguments, FILE *stream)
{
    fputs(head, stream);
    print_table(arguments, stream);
    fputs(foot, stream);
}

/* Print the lines of 'table' that differ from those of 'first'. */
static void print_changes(const char *table, FILE *first, FILE *stream)
{
    char *line = NULL;
    size_t size = 0;
    int equal = 0;

    for (size_t length; *table; table += length) {
        ssize_t got = getline(&line, &size, first);

        length = strcspn(table, "\n") + 1;
        if (got == (ssize_t)length && memcmp(line, table, length) == 0)
            equal++;
        else
            fprintf(stream, "%.*s", (int)length, table);
    }
    fprintf(stream, "  and %d others as at the first start\n", equal);
    free(line);
}

void arguments_print_start(const struct arguments *arguments, FILE *stream)
{
    char path[PATH_MAX], *table = NULL;
    FILE *memory, *first;
    struct error ignored;
    size_t size = 0;

    if (!getenv(TRAIN_SUPERVISED) || !arguments->checkpoint.save ||
        directory_path(path, NULL, "%s/" TRAIN_ARGUMENTS, arguments->checkpoint.save) < 0 ||
        !(memory = open_memstream(&table, &size))) {
        arguments_print(arguments, stream);
        return;
    }
    print_table(arguments, memory);
    fclose(memory);
    first = table ? fopen(path, "re") : NULL;
    if (first) {
        fputs(head, stream);
        print_changes(table, first, stream);
        fputs(foot, stream);
        fclose(first);
    } else {
        arguments_print(arguments, stream);
        if (table)
            directory_write(arguments->checkpoint.save, TRAIN_ARGUMENTS, table, size, &ignored);
    }
    free(table);
}
