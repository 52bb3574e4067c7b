/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/json.h"
#include "base/core/locate.h"
#include "base/core/log.h"
#include "machine_fields.h"
#include "machine_private.h"
#include "base/core/list.h"

enum { FILE_LIMIT = 1 << 20 };

/* CUDA's context and libraries, and the buffers of a few communicators. */
#define USUAL_CONTEXT (3 * GIB)

/* Megatron-core's and NeMo's distributed optimizer with bf16 gradients. */
static const struct machine_memory usual_memory = {
    .state_bytes = 4, .sharded_bytes = 12, .activations = 1, .context_bytes = USUAL_CONTEXT};

/* Llama 3's pre-training: 16,384 GPUs stopped every 2.8 hours. */
#define USUAL_FAULT_HOURS    46000
#define USUAL_SAVE_BANDWIDTH 2e9

/* Azure, Meta and ByteDance publish limits for GPUs, which are alike; CPUs vary more, and are often
 * shared. */
struct machine_limits machine_usual_limits(int gpus)
{
    return (struct machine_limits){.core_warn = 0.25,
                                   .core_fail = 0.4,
                                   .memory_warn = 0.3,
                                   .memory_fail = 0.5,
                                   .layer_warn = gpus ? 0.03 : 0.25,
                                   .layer_fail = gpus ? 0.06 : 0.4,
                                   .held_warn = 0.1,
                                   .held_fail = 0.25,
                                   .link_warn = 0.6,
                                   .link_fail = 0.8,
                                   .loss_warn = 0.003,
                                   .loss_fail = 0.01,
                                   .skew_warn = 0.5,
                                   .skew_fail = 5,
                                   .disk_bytes = 1 * GIB,
                                   .disk_bandwidth = 10e6,
                                   .open_files = 4096,
                                   .locked_memory = 1 * GIB};
}

/* Read the fields of 'object' into the struct at 'target'; those not there keep their value.
 * Members of other names must be among 'others' (a list that ends with NULL). */
static int read_fields(struct json_value object, const struct field *fields,
                       const char *const *others, void *target, struct error *err)
{
    struct json_iterator each;
    struct json_value value;
    const char *name;
    size_t length;

    if (json_type(object) != JSON_OBJECT || json_iterate(object, &each) < 0)
        return error_set_code(err, ERROR_USAGE, "this must be a JSON object, {...}");
    while (json_next(&each, &name, &length, &value)) {
        const struct field *field = fields;
        const char *const *other = others;
        double number;

        while (field->name && strcmp(field->name, name) != 0)
            field++;
        while (*other && strcmp(*other, name) != 0)
            other++;
        if (*other)
            continue;
        if (!field->name)
            return error_set_code(err, ERROR_USAGE, "unknown member \"%s\"", name);
        if (json_real(value, &number) < 0 || !(number >= field->min && number <= field->max))
            return error_set_code(err, ERROR_USAGE,
                                  "\"%s\" must be a number from %g to %g; check its unit", name,
                                  field->min, field->max);
        *(double *)((char *)target + field->offset) = number * field->unit;
    }
    for (const struct field *field = fields; field->name; field++)
        if (field->required && json_member(object, field->name, &value) < 0)
            return error_set_code(err, ERROR_USAGE, "\"%s\" is missing", field->name);
    return 0;
}

/* Read a member that is an object with these fields and perhaps a comment, if it is there. */
static int read_part(struct json_value object, const char *name, const struct field *fields,
                     void *target, struct error *err)
{
    static const char *const comment[] = {"comment", NULL};
    struct json_value part;

    if (json_member(object, name, &part) < 0 ||
        read_fields(part, fields, comment, target, err) == 0)
        return 0;
    return error_prefix(err, "\"%s\"", name);
}

static int read_text(struct json_value object, const char *name, char *out, size_t size,
                     struct error *err)
{
    struct json_value value;
    const char *text;
    size_t length;

    if (json_member(object, name, &value) < 0 || json_string(value, &text, &length) < 0)
        return error_set_code(err, ERROR_USAGE, "\"%s\" is missing or not a string", name);
    if (length == 0 || length >= size || strlen(text) != length)
        return error_set_code(err, ERROR_USAGE, "\"%s\" must have 1 to %zu characters", name,
                              size - 1);
    memcpy(out, text, length + 1);
    return 0;
}

static int read_count(struct json_value object, const char *name, int64_t most, int *out,
                      struct error *err)
{
    struct json_value value;
    int64_t number;

    if (json_member(object, name, &value) < 0 || json_integer(value, &number) < 0 || number < 1 ||
        number > most)
        return error_set_code(err, ERROR_USAGE, "\"%s\" must be a whole number from 1 to %lld",
                              name, (long long)most);
    *out = (int)number;
    return 0;
}

/* --- Files ----------------------------------------------------------------------------------- */

static const struct machine_rates usual_rates = {
    .product = 0.75,
    .small_tile = 0.85,
    .half_depth = 60,
    .launch = 4e-6,
    .flash = 0.5,
    .unfused = 0.5,
    .head_exponent = 0.5,
    .unaligned = 0.2,
    .unaligned_vocabulary = 1,
    .fp8 = 0.85,
    .fp4 = 0.6,
    .score_bytes = 10,
    .hidden_traffic = 16,
    .ffn_traffic = 6,
    .logit_bytes = 16,
    .layer = 25e-6,
    .nvlink = 0.8,
    .network = 0.7,
    .network_group = 3,
    .latency = 10e-6,
    .hop = 20e-6,
    .tensor_exposed = 0.5,
    .context_exposed = 0.3,
    .pipeline_exposed = 1,
    .data_exposed = 0.1,
    .data_growth = 0.02,
    .gradient_bytes = 2.5,
    .accumulate_bytes = 0,
    .optimizer_bytes = 24,
    .fixed = 0.02,
    .hbm = 0.85,
};

static int read_steps(struct json_value list, struct machine_gpu *gpu, struct error *err)
{
    static const char *const none[] = {"comment", NULL};
    struct json_iterator each;
    struct json_value value;

    if (json_type(list) != JSON_ARRAY || json_iterate(list, &each) < 0)
        return error_set_code(err, ERROR_USAGE,
                              "this must be a JSON list of measured steps, [{...}, ...]");
    while (json_next(&each, NULL, NULL, &value)) {
        if (gpu->step_count == MACHINE_STEPS)
            return error_set_code(err, ERROR_USAGE, "the list has more than %d measured steps",
                                  MACHINE_STEPS);
        if (read_fields(value, machine_step_fields, none, &gpu->steps[gpu->step_count], err) < 0)
            return error_prefix(err, "step %d", gpu->step_count + 1);
        gpu->step_count++;
    }
    return 0;
}

static int read_gpu(struct json_value object, struct machine_gpu *gpu, struct error *err)
{
    static const char *const others[] = {"name",      "multiprocessors", "rates",
                                         "own_rates", "steps",           NULL};
    struct json_value steps;

    gpu->rates = usual_rates;
    if (read_fields(object, machine_gpu_fields, others, gpu, err) < 0 ||
        read_text(object, "name", gpu->name, sizeof(gpu->name), err) < 0 ||
        read_count(object, "multiprocessors", 10000, &gpu->processors, err) < 0)
        return -1;
    if (read_part(object, "rates", machine_rate_fields, &gpu->rates, err) < 0)
        return -1;
    gpu->own = gpu->rates;
    if (read_part(object, "own_rates", machine_rate_fields, &gpu->own, err) < 0)
        return -1;
    if (json_member(object, "steps", &steps) == 0 && read_steps(steps, gpu, err) < 0)
        return error_prefix(err, "\"steps\"");
    return 0;
}

static int read_aliases(struct json_value object, struct machine *machine, struct error *err)
{
    const size_t most = sizeof(machine->aliases) / sizeof(*machine->aliases);
    struct json_value list, value;
    struct json_iterator each;
    size_t count = 0, length;
    const char *text;

    if (json_member(object, "aliases", &list) < 0)
        return 0;
    if (json_type(list) != JSON_ARRAY || json_iterate(list, &each) < 0)
        return error_set_code(err, ERROR_USAGE, "\"aliases\" must be a list of names");
    while (json_next(&each, NULL, NULL, &value)) {
        if (json_string(value, &text, &length) < 0 || count == most)
            return error_set_code(err, ERROR_USAGE,
                                  "\"aliases\" must be a list of at most %zu names", most);
        machine->aliases[count++] = xstrdup(text);
    }
    return 0;
}

static void clear_machine(struct machine *machine)
{
    for (size_t i = 0; i < sizeof(machine->aliases) / sizeof(*machine->aliases); i++)
        free(machine->aliases[i]);
}

struct machine machine_usual(void)
{
    return (struct machine){.gpu = {.rates = usual_rates, .own = usual_rates, .time_error = 0.2},
                            .gpus = 1,
                            .nvlink_pair = 1,
                            .efficiency = 1,
                            .nvlink_efficiency = 1,
                            .collective_latency = 1,
                            .fault_hours = USUAL_FAULT_HOURS,
                            .save_bandwidth = USUAL_SAVE_BANDWIDTH,
                            .context_bytes = USUAL_CONTEXT,
                            .memory = usual_memory,
                            .limits = machine_usual_limits(1)};
}

/* A node without GPUs: what preflight expects of it, and nothing to plan with. */
static int read_bare_node(struct json_value object, struct machine *machine, struct error *err)
{
    static const char *const others[] = {"name", "aliases", "preflight", "comment", NULL};
    struct field nics[2] = {{0}};

    for (const struct field *f = machine_node_fields; f->name; f++)
        if (strcmp(f->name, "nics") == 0)
            nics[0] = *f;
    machine->gpus = 0;
    machine->limits = machine_usual_limits(0);
    return read_fields(object, nics, others, machine, err) < 0 ||
                   read_aliases(object, machine, err) < 0
               ? -1
               : 0;
}

/* 'gpu' is NULL for nodes without GPUs. */
static int read_node(struct machines *all, struct json_value object, const struct machine_gpu *gpu,
                     struct error *err)
{
    static const char *const others[] = {"name",   "aliases", "gpus",      "gpu",
                                         "memory", "comment", "preflight", NULL};
    static const char *const gpu_others[] = {"name", NULL};
    struct machine machine = machine_usual();
    struct machine_list *list;
    struct json_value other;

    if (gpu)
        machine.gpu = *gpu;
    if (read_text(object, "name", machine.name, sizeof(machine.name), err) < 0)
        return -1;
    if (!gpu ? read_bare_node(object, &machine, err) < 0
             : read_fields(object, machine_node_fields, others, &machine, err) < 0 ||
                   read_count(object, "gpus", 1024, &machine.gpus, err) < 0 ||
                   read_aliases(object, &machine, err) < 0)
        goto fail;
    if (read_part(object, "preflight", machine_limit_fields, &machine.limits, err) < 0 ||
        read_part(object, "memory", machine_memory_fields, &machine.memory, err) < 0)
        goto fail;
    /* A node whose GPUs differ from the others of their generation in memory or rate. */
    if (gpu && json_member(object, "gpu", &other) == 0) {
        struct field optional[MACHINE_FIELDS];
        size_t count = 0;

        while (machine_gpu_fields[count].name)
            count++;
        memcpy(optional, machine_gpu_fields, (count + 1) * sizeof(*optional));
        for (struct field *f = optional; f->name; f++)
            f->required = 0;
        if (read_fields(other, optional, gpu_others, &machine.gpu, err) < 0 ||
            read_text(other, "name", machine.gpu.name, sizeof(machine.gpu.name), err) < 0) {
            error_prefix(err, "\"gpu\"");
            goto fail;
        }
    }
    list = gpu ? &all->with_gpus : &all->bare;
    *list_add(list) = machine;
    return 0;
fail:
    clear_machine(&machine);
    return error_prefix(err, "node \"%s\"", machine.name);
}

static int read_machine_file(struct machines *all, const char *path, struct error *err)
{
    struct json *json = json_read_file(path, FILE_LIMIT, err);
    struct json_value gpu_value, nodes, node;
    struct machine_gpu gpu = {.time_error = 0.2};
    struct json_iterator each;
    int rc = -1, bare;

    if (!json) {
        err->code = ERROR_USAGE;
        return -1;
    }
    if (json_member(json_root(json), "nodes", &nodes) < 0 || json_type(nodes) != JSON_ARRAY) {
        error_set_code(err, ERROR_USAGE,
                       "a machine file needs a list \"nodes\" and, if they have GPUs, \"gpu\"");
        goto out;
    }
    bare = json_member(json_root(json), "gpu", &gpu_value) < 0;
    if (!bare && read_gpu(gpu_value, &gpu, err) < 0) {
        error_prefix(err, "\"gpu\"");
        goto out;
    }
    json_iterate(nodes, &each);
    rc = 0;
    while (rc == 0 && json_next(&each, NULL, NULL, &node))
        rc = read_node(all, node, bare ? NULL : &gpu, err);
out:
    if (rc < 0) {
        error_prefix(err, "%s", path);
        error_advise(err, "correct the file; megatron-plan(1) describes it");
    }
    json_destroy(json);
    return rc;
}

static int is_json(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);

    return length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0;
}

static void cut_list(struct machine_list *list, size_t count)
{
    while (list->count > count)
        clear_machine(&list->items[--list->count]);
}

/* Add the machines of one file: all of them or none. */
static int add_machine_file(struct machines *all, const char *path, struct error *err)
{
    size_t with_gpus = all->with_gpus.count, bare = all->bare.count;

    if (read_machine_file(all, path, err) == 0)
        return 0;
    cut_list(&all->with_gpus, with_gpus);
    cut_list(&all->bare, bare);
    return -1;
}

static struct machines *read_machines(const char *directory, struct error *err)
{
    struct machines *all = xcalloc(1, sizeof(*all));
    struct dirent **names = NULL;
    int count, failed = 0;

    count = scandir(directory, &names, is_json, alphasort);
    if (count < 0) {
        error_set_code_errno(err, ERROR_USAGE, errno, "cannot read the machine files in %s",
                             directory);
        machines_destroy(all);
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        char *path = xasprintf("%s/%s", directory, names[i]->d_name);
        struct error wrong;

        if (add_machine_file(all, path, &wrong) < 0) {
            if (failed++ > 0)
                log_warning("%s", err->text);
            *err = wrong;
        }
        free(path);
        free(names[i]);
    }
    free(names);
    /* The last error is returned if nothing is left, and a warning otherwise. */
    if (all->with_gpus.count + all->bare.count > 0) {
        if (failed > 0)
            log_warning("%s", err->text);
        return all;
    }
    if (failed == 0)
        error_set_code(err, ERROR_USAGE,
                       "%s contains no machine files (*.json); reinstall megatron, or name a "
                       "directory that has them",
                       directory);
    machines_destroy(all);
    return NULL;
}

struct machines *machines_open(const char *directory, struct error *err)
{
    char path[PATH_MAX];

    if (!directory)
        directory = getenv("MEGATRON_MACHINES");
    if (!directory || directory[0] == '\0') {
        if (locate_data("machines", path, sizeof(path), err) < 0)
            return NULL;
        directory = path;
    }
    return read_machines(directory, err);
}

static void clear_list(struct machine_list *list)
{
    cut_list(list, 0);
    free(list->items);
}

void machines_destroy(struct machines *machines)
{
    if (!machines)
        return;
    clear_list(&machines->with_gpus);
    clear_list(&machines->bare);
    free(machines);
}

size_t machines_count(const struct machines *machines)
{
    return machines->with_gpus.count;
}

const struct machine *machines_at(const struct machines *machines, size_t index)
{
    return index < machines->with_gpus.count ? &machines->with_gpus.items[index] : NULL;
}
