/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "locate.h"
#include "option.h"
#include "rows.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct plan_options {
    const char *machines, *node, *rows;
};

#define AT(field) offsetof(struct plan_options, field)
static const struct option table[] = {
    {"rows", OPTION_TEXT, AT(rows), "FILE.csv",
     "print the rows of published runs with predicted step time, rate and memory", NULL, 0, 0},
    {"node", OPTION_TEXT, AT(node), "KIND", "kind of the nodes; \"list\" prints all", NULL, 0, 0},
    {"machines", OPTION_TEXT, AT(machines), "DIR",
     "machine files (default: MEGATRON_MACHINES, or those installed)", NULL, 0, 0},
    {NULL, OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
};
#undef AT

static struct machines *read_machines(const struct plan_options *options, struct error *err)
{
    const char *directory = options->machines ? options->machines : getenv("MEGATRON_MACHINES");
    char path[PATH_MAX];

    if (!directory || directory[0] == '\0') {
        if (locate_data("machines", path, sizeof(path), err) < 0)
            return NULL;
        directory = path;
    }
    return machines_read(directory, err);
}

static void list_nodes(const struct machines *machines)
{
    printf("%-18s %4s  %-15s %9s %9s %9s  %s\n", "node", "GPUs", "GPU", "GiB", "NVLink", "network",
           "$/hour");
    for (size_t i = 0; i < machines_count(machines); i++) {
        const struct machine *m = machines_at(machines, i);

        printf("%-18s %4d  %-15s %9.0f %9.0f %9.2f  ", m->name, m->gpus, m->gpu.name,
               m->gpu.memory_bytes / 1073741824.0, m->nvlink / 1e9, m->network / 1e9);
        if (m->price > 0)
            printf("%.2f", m->price);
        printf("\n");
    }
    printf("NVLink and network: GB/s per GPU and direction\n");
}

static int run_options(const struct plan_options *options, struct error *err)
{
    struct machines *machines = read_machines(options, err);
    int rc = 0;

    if (!machines)
        return -1;
    if (options->node && strcmp(options->node, "list") == 0)
        list_nodes(machines);
    else if (options->rows)
        rc = rows_predict(options->rows, machines, stdout, err);
    machines_destroy(machines);
    return rc;
}

static int run_plan(int argc, const char *const *argv, struct error *err)
{
    struct plan_options options = {0};
    struct options_result result;
    int rc = options_parse(table, &options, argc, argv, &result, err);

    if (rc == 0 && result.help) {
        printf("Usage: megatron plan --rows FILE.csv\n");
        options_print(table, stdout);
    } else if (rc == 0) {
        rc = run_options(&options, err);
    } else {
        rc = COMMAND_USAGE;
    }
    options_result_clear(&result);
    return rc < 0 && err->code == ERROR_USAGE ? COMMAND_USAGE : rc;
}

const struct command command_plan = {
    .name = "plan",
    .summary = "layouts of a model on a cluster: memory, time, cost",
    .run = run_plan,
};
