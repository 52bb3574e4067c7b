/* SPDX-License-Identifier: Apache-2.0 */
#include "base/core/json_write.h"
#include "lib/file.h"
#include "machine_fields.h"

/* All numbers of a struct, as the file has them: in its units and within its limits. */
static void put_fields(struct json_writer *json, const struct field *fields, const void *from)
{
    for (; fields->name; fields++) {
        double value = *(const double *)((const char *)from + fields->offset) / fields->unit;

        if (value < fields->min)
            value = fields->min;
        if (value > fields->max)
            value = fields->max;
        json_put_number(json, fields->name, value, 6);
    }
}

static void put_object(struct json_writer *json, const char *name, const struct field *fields,
                       const void *from)
{
    json_open(json, name, '{');
    put_fields(json, fields, from);
    json_close(json);
}

int machine_write(const struct machine *machine, const char *path, struct error *err)
{
    const struct machine_gpu *gpu = &machine->gpu;
    struct json_writer json = {.spaced = true};
    int rc;

    json_open_lines(&json, NULL, '{');
    json_open_lines(&json, "gpu", '{');
    json_put_string(&json, "name", gpu->name);
    json_put_integer(&json, "multiprocessors", gpu->processors);
    put_fields(&json, machine_gpu_fields, gpu);
    put_object(&json, "rates", machine_rate_fields, &gpu->rates);
    if (gpu->step_count > 0) {
        json_open_lines(&json, "steps", '[');
        for (int i = 0; i < gpu->step_count; i++)
            put_object(&json, NULL, machine_step_fields, &gpu->steps[i]);
        json_close(&json);
    }
    json_close(&json);
    json_open(&json, "nodes", '[');
    json_open_lines(&json, NULL, '{');
    json_put_string(&json, "name", machine->name);
    json_put_integer(&json, "gpus", machine->gpus);
    put_fields(&json, machine_node_fields, machine);
    put_object(&json, "memory", machine_memory_fields, &machine->memory);
    put_object(&json, "preflight", machine_limit_fields, &machine->limits);
    json_close(&json);
    json_close(&json);
    json_close(&json);
    json_end_line(&json);
    rc = file_write_whole(path, json.data, json.size, FILE_SYNC_DIRECTORY, err);
    json_writer_clear(&json);
    return rc;
}
