/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "lib/file.h"
#include "machine_fields.h"

/* All numbers of a struct, as the file has them: in its units and within its limits. */
static void write_fields(const struct field *fields, const void *from, FILE *out)
{
    for (; fields->name; fields++) {
        double value = *(const double *)((const char *)from + fields->offset) / fields->unit;

        if (value < fields->min)
            value = fields->min;
        if (value > fields->max)
            value = fields->max;
        fprintf(out, ",\n    \"%s\": %.6g", fields->name, value);
    }
}

/* A struct with nothing before its first number. */
static void write_object(const char *name, const struct field *fields, const void *from, FILE *out)
{
    fprintf(out, ",\n    \"%s\": {\"comment\": \"\"", name);
    write_fields(fields, from, out);
    fprintf(out, "}");
}

static void write_steps(const struct machine_gpu *gpu, FILE *out)
{
    if (gpu->step_count == 0)
        return;
    fprintf(out, ",\n    \"steps\": [");
    for (int i = 0; i < gpu->step_count; i++) {
        fprintf(out, "%s\n    {\"comment\": \"\"", i > 0 ? "," : "");
        write_fields(machine_step_fields, &gpu->steps[i], out);
        fprintf(out, "}");
    }
    fprintf(out, "]");
}

static void write_text(const char *text, FILE *out)
{
    fputc('"', out);
    for (; *text; text++)
        if (*text == '"' || *text == '\\' || (unsigned char)*text < 0x20)
            fputc('?', out);
        else
            fputc(*text, out);
    fputc('"', out);
}

static void write_machine(const struct machine *machine, FILE *out)
{
    const struct machine_gpu *gpu = &machine->gpu;

    fprintf(out, "{\n  \"gpu\": {\n    \"name\": ");
    write_text(gpu->name, out);
    fprintf(out, ",\n    \"multiprocessors\": %d", gpu->processors);
    write_fields(machine_gpu_fields, gpu, out);
    write_object("rates", machine_rate_fields, &gpu->rates, out);
    write_steps(gpu, out);
    fprintf(out, "\n  },\n  \"nodes\": [{\n    \"name\": ");
    write_text(machine->name, out);
    fprintf(out, ",\n    \"gpus\": %d", machine->gpus);
    write_fields(machine_node_fields, machine, out);
    write_object("memory", machine_memory_fields, &machine->memory, out);
    write_object("preflight", machine_limit_fields, &machine->limits, out);
    fprintf(out, "\n  }]\n}\n");
}

int machine_write(const struct machine *machine, const char *path, struct error *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    int rc;

    if (!memory)
        return error_set(err, "out of memory");
    write_machine(machine, memory);
    rc = fclose(memory) == 0 ? file_write_whole(path, text, size, FILE_SYNC_DIRECTORY, err)
                             : error_set(err, "out of memory");
    free(text);
    return rc;
}
