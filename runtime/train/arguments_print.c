/* SPDX-License-Identifier: Apache-2.0 */
/* The table of arguments at the start of a run, as Megatron prints it. */
#include "arguments.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void arguments_print_value(const struct arguments *a, const struct option *row, FILE *stream)
{
    const char *slot = (const char *)a + row->offset;
    const struct option_list *list = (const struct option_list *)slot;

    switch (row->type) {
    case OPTION_INT: /* a negative number means "not given" unless the option takes one */
        if (*(const int64_t *)slot < 0 && row->min >= 0)
            fprintf(stream, " None\n");
        else
            fprintf(stream, " %" PRId64 "\n", *(const int64_t *)slot);
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
    case OPTION_CHOICE: {
        const char *word = row->choices;
        int number = *(const int *)slot;

        for (int i = 0; i < number && word; i++)
            word = strchr(word, '|') ? strchr(word, '|') + 1 : NULL;
        if (number < 0 || !word)
            fprintf(stream, " None\n");
        else
            fprintf(stream, " %.*s\n", (int)strcspn(word, "|"), word);
        break;
    }
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

void arguments_print(const struct arguments *arguments, FILE *stream)
{
    fprintf(stream, "------------------------ arguments ------------------------\n");
    for (const struct option *row = arguments_table; row->name; row++)
        if (row->type != OPTION_HEADING && row->type != OPTION_IGNORED &&
            row->type != OPTION_RENAMED && row->type != OPTION_ABSENT)
            print_line(arguments, row, stream);
    fprintf(stream, "-------------------- end of arguments ---------------------\n");
}
