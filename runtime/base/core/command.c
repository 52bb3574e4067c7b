/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include "world.h"
#include "xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The values before the options are read. The caller frees them. */
static void *defaults_of(const struct command *command)
{
    void *values = xcalloc(1, command->size);

    if (command->defaults)
        memcpy(values, command->defaults, command->size);
    return values;
}

static void print_help(const struct command *command)
{
    void *defaults = command->size > 0 ? defaults_of(command) : NULL;

    printf("%s", command->usage);
    options_print(command->options, defaults, stdout);
    free(defaults);
    printf("\nSee megatron-%.*s(1).\n", (int)strcspn(command->name, " "), command->name);
}

/* Two rows may fill the same list. */
static void free_lists(const struct option *table, void *given)
{
    for (; table->name; table++)
        if (table->type == OPTION_LIST || table->type == OPTION_TEXTS) {
            struct option_list *list = (struct option_list *)((char *)given + table->offset);

            free(list->items);
            list->items = NULL;
        }
}

static int run_action(const struct command *command, int argc, const char *const *argv,
                      struct error *err)
{
    const char *action = argc > 0 ? argv[0] : "";
    size_t prefix = strlen(command->name) + 1;

    if (strcmp(action, "--help") == 0 || strcmp(action, "-h") == 0) {
        print_help(command->usage ? command : command->actions[0]);
        return 0;
    }
    for (const struct command *const *a = command->actions; *a; a++)
        if (strcmp((*a)->name + prefix, action) == 0) {
            int rc = command_run(*a, argc - 1, argv + 1, err);

            return rc < 0 ? error_prefix(err, "%s", action) : rc;
        }
    /* Which options there are depends on the action. */
    if (action[0] == '\0' || action[0] == '-')
        error_set_code(err, ERROR_USAGE, "no action; use");
    else
        error_set_code(err, ERROR_USAGE, "unknown action %.100s; use", action);
    for (const struct command *const *a = command->actions; *a; a++)
        error_append(err, "%s %s",
                     a == command->actions ? ""
                     : a[1]                ? ","
                                           : " or",
                     (*a)->name + prefix);
    return -1;
}

int command_run(const struct command *command, int argc, const char *const *argv, struct error *err)
{
    struct options_result result;
    void *given;
    int rc;

    if (command->run_words)
        return command->run_words(argc, argv, err);
    if (command->actions)
        return run_action(command, argc, argv, err);
    given = defaults_of(command);
    rc = options_parse(command->options, given, argc, argv, &result, err);
    if (rc == 0 && result.help) {
        print_help(command);
        goto out;
    }
    if (rc == 0 && command->unexpected && result.word_count > 0)
        rc = error_set_code(err, ERROR_USAGE, "unexpected argument %.100s; %s", result.words[0],
                            command->unexpected);
    if (rc == 0)
        rc = options_check(&result, given, err);
    if (rc == 0)
        rc = command->run(given, &result, err);
    else if (command->reported_once)
        world_say_once(0, err);
out:
    free_lists(command->options, given);
    options_result_clear(&result);
    free(given);
    return rc;
}
