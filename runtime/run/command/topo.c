/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "base/core/storage.h"
#include "base/core/json_write.h"
#include "base/core/log.h"
#include "base/core/option_rows.h"
#include "base/core/xmalloc.h"
#include "lib/placement.h"
#include "lib/parse.h"
#include "base/core/memory_stream.h"
#include "topo.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct topo_options {
    const char *topology, *gpus, *cpus, *bind, *nics, *svg, *save;
    int64_t tasks, gpus_per_task;
    int json;
};

#define AT(field) offsetof(struct topo_options, field)
static const struct option table[] = {
    HEADING("Node"),
    TEXT("topology", topology, "FILE",
         "hwloc XML file of a node, or a file written by --save (default: this machine)"),
    HEADING("Allocation"),
    RANGE("tasks", tasks, 1, 65536,
          "number of tasks on the node (default: one per GPU, at least 1)"),
    TEXT("gpus", gpus, "LIST",
         "allocated GPUs: numbers in PCI order such as 0-3,6, PCI addresses, all or none (default: "
         "all)"),
    RANGE("gpus-per-task", gpus_per_task, 1, 4096, "number of GPUs per task"),
    TEXT("cpus", cpus, "LIST",
         "allocated CPUs, such as 0-11,96-107 (default: all; on this machine, those of this "
         "process)"),
    HEADING("Placement"),
    TEXT("bind", bind, "POLICY", "binding policy: auto, none, gpu, numa, core or lists of CPUs"),
    TEXT("nics", nics, "POLICY", "NIC policy: auto, none, all or lists of NICs"),
    HEADING("Output"),
    FLAG("json", json, "print JSON: an array with one object per task"),
    TEXT("svg", svg, "FILE",
         "draw the node, colored by task, as SVG (- writes to standard output)"),
    TEXT("save", save, "FILE", "save the node's topology as used for placement"),
    {0},
};
#undef AT

enum { CPU_TEXT = 65536 }; /* twice the length of the longest possible CPU list */

static void print_json(const struct placement *placement)
{
    struct json_writer json = {.stream = stdout};
    char name[32], pci[PCI_TEXT], *cpus = xmalloc(CPU_TEXT);

    json_open_lines(&json, NULL, '[');
    for (size_t t = 0; t < placement->task_count; t++) {
        const struct placement_task *task = &placement->tasks[t];

        json_open(&json, NULL, '{');
        json_put_integer(&json, "task", (int64_t)t);
        json_open(&json, "gpus", '[');
        for (size_t i = 0; i < task->gpu_count; i++) {
            json_open(&json, NULL, '{');
            json_put_integer(&json, "index", task->gpus[i].index);
            json_put_string(&json, "pci", pci_format(&task->gpus[i].pci, pci));
            json_close(&json);
        }
        json_close(&json);
        json_open(&json, "nics", '[');
        for (size_t i = 0; i < task->nic_count; i++)
            json_put_string(&json, NULL, topology_device_name(task->nics[i], name));
        json_close(&json);
        cpuset_format(&task->cpus, cpus, CPU_TEXT);
        json_put_string(&json, "cpus", cpus);
        json_open(&json, "numa", '[');
        for (size_t i = 0; i < task->numa_count; i++)
            json_put_integer(&json, NULL, task->numa[i]);
        json_close(&json);
        json_close(&json);
    }
    json_close(&json);
    json_end_line(&json);
    free(cpus);
}

/* Write one cell of the table to 'text'; row -1 is the heading. */
enum column { COLUMN_TASK, COLUMN_GPU, COLUMN_NICS, COLUMN_NUMA, COLUMN_CPUS, COLUMNS };

static void format_cell(const struct placement *placement, enum column column, long row, char *text)
{
    static const char *const headings[COLUMNS] = {"task", "GPU", "NICs", "NUMA", "CPUs"};
    const struct placement_task *task = row < 0 ? NULL : &placement->tasks[row];
    char name[32], pci[PCI_TEXT];

    strcpy(text, task ? "" : headings[column]);
    if (task && column == COLUMN_TASK)
        sprintf(text, "%ld", row);
    for (size_t i = 0; task && column == COLUMN_GPU && i < task->gpu_count; i++)
        list_text_add(text, CPU_TEXT, ", ", "%d %s", task->gpus[i].index,
                      pci_format(&task->gpus[i].pci, pci));
    for (size_t i = 0; task && column == COLUMN_NICS && i < task->nic_count; i++)
        list_text_add(text, CPU_TEXT, ",", "%s", topology_device_name(task->nics[i], name));
    for (size_t i = 0; task && column == COLUMN_NUMA && i < task->numa_count; i++)
        list_text_add(text, CPU_TEXT, ",", "%d", task->numa[i]);
    if (task && column == COLUMN_CPUS)
        cpuset_format(&task->cpus, text, CPU_TEXT);
    if (text[0] == '\0')
        strcpy(text, "-");
}

void topo_summarize(const struct topology *topology, char *text, size_t size)
{
    const struct {
        size_t count;
        const char *name;
    } parts[] = {{topology->core_count, "core"},
                 {topology->cpu_count, "CPU"},
                 {topology->numa_count, "NUMA node"},
                 {topology->gpu_count, "GPU"},
                 {topology->nic_count, "compute NIC"}};
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        list_text_add(text, size, ", ", "%zu %s%s", parts[i].count, parts[i].name,
                      parts[i].count == 1 ? "" : "s");
}

static void print_table(const char *title, const struct topology *topology,
                        const struct placement *placement)
{
    size_t width[COLUMNS] = {0};
    long rows = (long)placement->task_count;
    char *text = xmalloc(CPU_TEXT);

    for (long row = -1; row < rows; row++)
        for (int column = 0; column < COLUMNS; column++) {
            format_cell(placement, (enum column)column, row, text);
            if (strlen(text) > width[column])
                width[column] = strlen(text);
        }
    topo_summarize(topology, text, CPU_TEXT);
    printf("%s: %s\n\n", title, text);
    for (long row = -1; row < rows; row++)
        for (int column = 0; column < COLUMNS; column++) {
            bool last = column == COLUMNS - 1;

            format_cell(placement, (enum column)column, row, text);
            if (column == COLUMN_TASK)
                printf("%*s  ", (int)width[column], text);
            else
                printf("%-*s%s", last ? 0 : (int)width[column], text, last ? "\n" : "  ");
        }
    for (size_t i = 0; i < placement->warning_count; i++)
        log_warning("%s", placement->warnings[i]);
    free(text);
}

static int print_placement(const struct topo_options *options, const struct topology *topology,
                           const struct placement *placement, struct error *err)
{
    const char *title = options->topology ? options->topology : "this machine";
    struct output output;

    if (strrchr(title, '/'))
        title = strrchr(title, '/') + 1;
    if (options->svg) {
        output_open(&output);
        topo_draw(title, topology, placement, output.stream);
        if (output_write(&output, options->svg, err) < 0)
            return -1;
    }
    if (options->json)
        print_json(placement);
    else if (!options->svg || strcmp(options->svg, "-") != 0)
        print_table(title, topology, placement);
    return 0;
}

static struct topology *read_node(const struct topo_options *options, struct error *err)
{
    struct topology *topology;

    if (!options->topology)
        return topology_discover(err);
    errno = 0;
    topology = topology_load(options->topology, err);
    if (!topology)
        file_path_error(err);
    return topology;
}

/* Read --cpus, of which the node must have some. */
static int read_cpus(const struct topology *topology, const char *text, struct cpuset *cpus,
                     struct error *err)
{
    struct cpuset all;
    char has[128];

    topology_cpus(topology, &all);
    if (cpuset_parse("--cpus", text, cpus, err) < 0)
        return -1;
    if (cpuset_overlap(cpus, &all))
        return 0;
    cpuset_format(&all, has, sizeof(has));
    return error_set_code(err, ERROR_USAGE,
                          "--cpus=%.100s: the node has none of these CPUs; use some of %s", text,
                          has);
}

/* What cannot be placed was asked for on the command line. */
static int usage(struct error *err)
{
    err->code = ERROR_USAGE;
    return -1;
}

static int place(const struct topo_options *options, const struct topology *topology,
                 struct error *err)
{
    struct placement_request request = {.bind = options->bind,
                                        .nics = options->nics,
                                        .tasks = (size_t)options->tasks,
                                        .gpus_per_task = (size_t)options->gpus_per_task};
    struct allocated_gpu *gpus = NULL;
    struct placement *placement;
    struct cpuset cpus;
    int rc;

    if (options->cpus && read_cpus(topology, options->cpus, &cpus, err) < 0)
        return -1;
    if (!options->cpus && !options->topology && cpuset_of_thread(&cpus, err) < 0)
        return -1;
    if (options->cpus || !options->topology)
        request.cpus = &cpus;
    request.gpu_count = topology->gpu_count;
    if (options->gpus) {
        gpus = placement_parse_gpus("--gpus", options->gpus, topology, &request.gpu_count, err);
        if (!gpus)
            return usage(err);
        request.gpus = gpus;
    }
    if (request.tasks == 0)
        request.tasks = request.gpu_count > 0 ? request.gpu_count : 1;
    placement = placement_create(topology, &request, err);
    rc = placement ? print_placement(options, topology, placement, err) : usage(err);
    placement_destroy(placement);
    free(gpus);
    return rc;
}

static int run_topo(void *given, const struct options_result *result, struct error *err)
{
    const struct topo_options *options = given;
    struct topology *topology = read_node(options, err);
    int rc = -1;

    (void)result;
    if (topology && options->save && topology_save(topology, options->save, err) < 0)
        file_path_error(err);
    else if (topology)
        rc = place(options, topology, err);
    topology_destroy(topology);
    return rc;
}

const struct command command_topo = {
    .name = "topo",
    .summary = "show which GPUs, NICs and CPUs each task of a node gets",
    .usage =
        "Usage: megatron topo [OPTION...]\n"
        "Show which GPUs, NICs and CPUs each task of a node gets, as the plugin places them.\n",
    .options = table,
    .size = sizeof(struct topo_options),
    .unexpected = "use --topology to name a file",
    .run = run_topo,
};
