/* SPDX-License-Identifier: Apache-2.0 */
/* Published training runs as CSV: the same rows with the step time, rate and memory that the model
 * of `megatron plan` predicts for them. Usage: rows FILE.csv
 *
 * Columns are found by the names in the first line (table "columns" below); their order does not
 * matter, and columns of other names are copied. An empty micro-batch is chosen by the model. A row
 * that cannot be predicted gets empty columns, and a warning says why. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/core/gib.h"
#include "base/core/log.h"
#include "csv.h"
#include "lib/file.h"
#include "lib/parse.h"
#include "sources.h"

enum { ROWS_LIMIT = 256 << 20, LARGEST_MICRO_BATCH = 64 };

/* The columns that the model reads. */
enum column {
    SOURCE,
    GPU,
    NODE,
    GPUS,
    PARAMS,
    LAYERS,
    HIDDEN,
    FFN,
    HEADS,
    KV_HEADS,
    VOCAB,
    SEQ,
    TP,
    PP,
    VPP,
    CP,
    EP,
    DP,
    MBS,
    GBS,
    PRECISION,
    RECOMPUTE,
    COLUMNS
};

static const struct {
    const char *name;
    int required; /* as a column; a field may still be empty where it has a usual value */
} columns[COLUMNS] = {
    [SOURCE] = {"source", 0},
    [GPU] = {"gpu", 1},
    [NODE] = {"node", 0},
    [GPUS] = {"gpus", 1},
    [PARAMS] = {"params_b", 0},
    [LAYERS] = {"layers", 1},
    [HIDDEN] = {"hidden", 1},
    [FFN] = {"ffn", 0},
    [HEADS] = {"heads", 1},
    [KV_HEADS] = {"kv_heads", 0},
    [VOCAB] = {"vocab", 1},
    [SEQ] = {"seq", 1},
    [TP] = {"tp", 0},
    [PP] = {"pp", 0},
    [VPP] = {"vpp", 0},
    [CP] = {"cp", 0},
    [EP] = {"ep", 0},
    [DP] = {"dp", 0},
    [MBS] = {"mbs", 0},
    [GBS] = {"gbs", 1},
    [PRECISION] = {"precision", 0},
    [RECOMPUTE] = {"recompute", 0},
};

/* A file, the line that is read, and where its columns are. */
struct table {
    const char *path;
    char separator;
    size_t columns;            /* of the first line */
    ssize_t position[COLUMNS]; /* of a column among the fields; -1: not there */
    struct csv_line line;
};

static int find_columns(struct table *table, char *header, struct error *err)
{
    if (header[0] == '\0')
        return error_set_code(err, ERROR_USAGE,
                              "the first line is empty; it must name the columns");
    table->separator = csv_separator(header);
    if (csv_cut(&table->line, header, table->separator, err) < 0)
        return -1;
    table->columns = table->line.count;
    for (int c = 0; c < COLUMNS; c++) {
        table->position[c] = -1;
        for (size_t i = 0; i < table->columns; i++)
            if (strcasecmp(table->line.fields[i], columns[c].name) == 0)
                table->position[c] = (ssize_t)i;
        if (table->position[c] < 0 && columns[c].required)
            return error_set_code(err, ERROR_USAGE, "the first line has no column \"%s\"",
                                  columns[c].name);
    }
    return 0;
}

static const char *text_of(const struct table *table, enum column column)
{
    ssize_t position = table->position[column];

    return position >= 0 && (size_t)position < table->line.count ? table->line.fields[position]
                                                                 : "";
}

/* The length of a number without the ".0" that pandas adds to columns with empty fields. */
static size_t whole_length(const char *text)
{
    size_t digits = strspn(text, "0123456789");

    return digits > 0 && text[digits] == '.' &&
                   text[digits + 1 + strspn(text + digits + 1, "0")] == '\0'
               ? digits
               : strlen(text);
}

/* A whole number from 1 on, or 'usual' (0: it must be there) where the field is empty. */
static int number_of(const struct table *table, enum column column, int64_t usual, int64_t *value,
                     struct error *err)
{
    const char *text = text_of(table, column);
    char *number;
    int rc;

    if (text[0] == '\0') {
        *value = usual;
        return usual > 0 ? 0 : error_set(err, "%s is missing", columns[column].name);
    }
    number = strndup(text, whole_length(text));
    rc = number ? parse_int64(columns[column].name, number, 1, INT32_MAX, value, err)
                : error_set(err, "out of memory");
    free(number);
    return rc;
}

static int read_shape(const struct table *table, struct plan_run *run, struct error *err)
{
    struct model_shape *shape = &run->shape;

    if (number_of(table, LAYERS, 0, &shape->layers, err) < 0 ||
        number_of(table, HIDDEN, 0, &shape->hidden, err) < 0 ||
        number_of(table, HEADS, 0, &shape->heads, err) < 0 ||
        number_of(table, FFN, 4 * shape->hidden, &shape->ffn_hidden, err) < 0 ||
        number_of(table, KV_HEADS, shape->heads, &shape->query_groups, err) < 0 ||
        number_of(table, VOCAB, 0, &shape->vocabulary, err) < 0 ||
        number_of(table, SEQ, 0, &shape->sequence, err) < 0)
        return -1;
    if (shape->heads > shape->hidden)
        return error_set(err,
                         "%s attention heads are more than the hidden size of %s; correct the row",
                         text_of(table, HEADS), text_of(table, HIDDEN));
    run->gated = shape->ffn_hidden != 4 * shape->hidden;
    run->tied = !run->gated;
    return 0;
}

static int read_layout(const struct table *table, struct plan_run *run, int64_t gpus, int chunks,
                       struct error *err)
{
    struct layout *layout = &run->layout;
    int64_t model;

    if (number_of(table, TP, 1, &layout->tp, err) < 0 ||
        number_of(table, PP, 1, &layout->pp, err) < 0 ||
        number_of(table, CP, 1, &layout->cp, err) < 0 ||
        number_of(table, VPP, chunks, &run->chunks, err) < 0 ||
        number_of(table, GBS, 0, &run->global_batch, err) < 0)
        return -1;
    model = layout->tp * layout->pp * layout->cp;
    if (gpus % model != 0)
        return error_set(err, "tp * pp * cp = %lld does not divide %lld GPUs", (long long)model,
                         (long long)gpus);
    layout->dp = gpus / model;
    if (run->global_batch < layout->dp)
        return error_set(err,
                         "the global batch of %lld is smaller than the data-parallel size %lld",
                         (long long)run->global_batch, (long long)layout->dp);
    if (layout->pp > run->shape.layers)
        return error_set(err, "more pipeline stages (pp) than layers");
    return 0;
}

/* Megatron-LM pads the vocabulary, so that products with it are aligned on every rank. */
static void pad_vocabulary(struct plan_run *run)
{
    const int64_t unit = 128 * run->layout.tp;

    run->shape.vocabulary = (run->shape.vocabulary + unit - 1) / unit * unit;
}

static int read_precision(const struct table *table, struct plan_run *run, struct error *err)
{
    const char *text = text_of(table, PRECISION);

    run->bf16 = strncasecmp(text, "fp16", 4) != 0;
    if (strcasestr(text, "fp4"))
        run->precision = MACHINE_FP4;
    else if (strcasestr(text, "fp8"))
        run->precision = MACHINE_FP8;
    else if (text[0] == '\0' || strncasecmp(text, "bf16", 4) == 0 || !run->bf16)
        run->precision = MACHINE_BF16;
    else
        return error_set(err, "precision \"%s\" is not bf16, fp16, fp8, mxfp8 or nvfp4", text);
    return 0;
}

/* Runs that recomputed on A100 GPUs, or whose source says that they did not, had no fused
 * attention; FSDP did. */
static int read_software(const struct table *table, const struct machines *machines,
                         struct machine *machine, struct plan_run *run,
                         struct formulas_software *software, struct error *err)
{
    const char *text = text_of(table, RECOMPUTE);
    int full = strncasecmp(text, "full", 4) == 0;
    int selective = strncasecmp(text, "selective", 9) == 0;

    run->recompute = full        ? PLAN_RECOMPUTE_FULL
                     : selective ? PLAN_RECOMPUTE_SELECTIVE
                                 : PLAN_RECOMPUTE_NONE;
    if (strncmp(machine->gpu.name, "A100", 4) == 0 && text[0] != '\0' && !software->sharded) {
        const struct machine *old = machines_find(machines, "old-a100", err);

        if (!old)
            return -1;
        machine->gpu.rates = old->gpu.rates;
    }
    software->sequence_parallel = machine->gpu.rates.classic == 0 || strstr(text, "+sp") != NULL;
    return 0;
}

/* The machine of a row: its own column "node", that of its source, or the first with such GPUs. */
static const struct machine *find_machine(const struct table *table, const struct source *source,
                                          const struct machines *machines, struct error *err)
{
    const char *gpu = text_of(table, GPU), *node = text_of(table, NODE);
    const struct machine *machine;

    if (node[0] || source->node)
        return machines_find(machines, node[0] ? node : source->node, err);
    if (gpu[0] == '\0') {
        error_set(err, "gpu is missing");
        return NULL;
    }
    machine = machines_find_gpu(machines, gpu, 0, err);
    if (!machine)
        error_append(err, "; correct the row, or name the kind of node in a column \"node\"");
    return machine;
}

struct prediction {
    double seconds, flops, memory;
    int64_t gpus;
};

static void consider(struct plan_run *run, const struct machine *machine,
                     struct formulas_software software, struct prediction *best)
{
    double seconds = plan_estimate(run, machine).total;
    double memory = formulas_memory(run, machine, software);
    int fits = memory <= machine->gpu.memory_bytes, better = seconds < best->seconds;

    /* The smallest one stays where none fits. */
    if (best->seconds > 0 && !(fits && better))
        return;
    best->seconds = seconds;
    best->memory = memory;
}

/* The micro-batch of the row, or the fastest that fits. */
static int choose_batch(const struct table *table, struct plan_run *run,
                        const struct machine *machine, struct formulas_software software,
                        struct prediction *best, struct error *err)
{
    int64_t of_rank = run->global_batch / run->layout.dp;

    if (text_of(table, MBS)[0]) {
        if (number_of(table, MBS, 0, &run->micro_batch, err) < 0)
            return -1;
        if (run->micro_batch > of_rank)
            return error_set(err,
                             "a micro-batch of %lld is more than the %lld samples of a "
                             "data-parallel rank",
                             (long long)run->micro_batch, (long long)of_rank);
        consider(run, machine, software, best);
        return 0;
    }
    for (run->micro_batch = 1; run->micro_batch <= of_rank; run->micro_batch *= 2)
        if (of_rank % run->micro_batch == 0 && run->micro_batch <= LARGEST_MICRO_BATCH)
            consider(run, machine, software, best);
    return 0;
}

static int predict(const struct table *table, const struct machines *machines,
                   struct prediction *out, struct error *err)
{
    const struct source *source = source_find(text_of(table, SOURCE), text_of(table, GPU));
    const struct machine *found = find_machine(table, source, machines, err);
    struct formulas_software software = {.sharded = source->sharded ||
                                                    strstr(text_of(table, SOURCE), "(FSDP)")};
    struct plan_run run = {.micro_batch = 1};
    struct machine machine;
    double billions = 0;

    *out = (struct prediction){0};
    if (!found || number_of(table, GPUS, 0, &out->gpus, err) < 0 ||
        read_shape(table, &run, err) < 0 ||
        read_layout(table, &run, out->gpus, source->chunks, err) < 0 ||
        read_precision(table, &run, err) < 0)
        return -1;
    machine = *found;
    if (machine.gpu.flops[run.precision] <= 0)
        return error_set(err, "%s has no rate for %s", machine.gpu.name, text_of(table, PRECISION));
    if (text_of(table, PARAMS)[0] &&
        parse_double("params_b", text_of(table, PARAMS), &billions, err) < 0)
        return -1;
    out->flops = formulas_flops(&run, source->flops, billions * 1e9);
    if (!source->unpadded)
        pad_vocabulary(&run);
    if (read_software(table, machines, &machine, &run, &software, err) < 0)
        return -1;
    return choose_batch(table, &run, &machine, software, out, err);
}

/* The line as it is, with a quote and empty fields if it lacks them, and the prediction. */
static void print_row(const struct table *table, const char *line, const struct prediction *p,
                      FILE *stream)
{
    const char by = table->separator;

    fputs(line, stream);
    if (table->line.open)
        fputc('"', stream);
    for (size_t i = table->line.count; i < table->columns; i++)
        fputc(by, stream);
    if (p)
        fprintf(stream, "%c%.6g%c%.5g%c%.5g\n", by, p->seconds, by,
                p->flops / p->seconds / (double)p->gpus / 1e12, by, gib(p->memory));
    else
        fprintf(stream, "%c%c%c\n", by, by, by);
}

static int read_line(struct table *table, char *line, struct error *err)
{
    if (csv_cut(&table->line, line, table->separator, err) < 0)
        return -1;
    if (table->line.count > table->columns)
        return error_set(err,
                         "%zu fields, but the first line has %zu columns; put fields that contain "
                         "\"%c\" in double quotes",
                         table->line.count, table->columns, table->separator);
    return 0;
}

static int predict_line(struct table *table, const char *line, const struct machines *machines,
                        FILE *stream, size_t number, struct error *err)
{
    struct prediction prediction;
    struct error wrong = {.text = ""};
    char *copy = strdup(line);
    int known;

    if (!copy)
        return error_set(err, "out of memory");
    known =
        read_line(table, copy, &wrong) == 0 && predict(table, machines, &prediction, &wrong) == 0;
    if (!known) {
        error_advise(&wrong, "correct the row");
        log_warning("%s, line %zu: %s", table->path, number, wrong.text);
    }
    print_row(table, line, known ? &prediction : NULL, stream);
    free(copy);
    return 0;
}

static int read_header(struct table *table, const char *line, FILE *stream, struct error *err)
{
    char *header = strdup(line);
    int rc = header ? find_columns(table, header, err) : error_set(err, "out of memory");

    free(header);
    if (rc == 0) {
        const char by = table->separator;

        fprintf(stream, "%s%cpredicted_step_s%cpredicted_tflops_per_gpu%cpredicted_mem_gb\n", line,
                by, by, by);
        return 0;
    }
    error_prefix(err, "%s", table->path);
    return -1;
}

static int predict_file(const char *path, const struct machines *machines, FILE *stream,
                        struct error *err)
{
    bool standard = strcmp(path, "-") == 0;
    struct table table = {.path = standard ? "standard input" : path};
    struct file_bytes bytes;
    size_t number = 1;
    char *next, *line;
    int rc = standard ? file_read_fd(STDIN_FILENO, table.path, ROWS_LIMIT, &bytes, err)
                      : file_read(path, ROWS_LIMIT, &bytes, err);

    if (rc < 0)
        return -1;
    next = bytes.data;
    rc = read_header(&table, csv_next(&next), stream, err);
    while (rc == 0 && (line = csv_next(&next))) {
        number++;
        if (line[0])
            rc = predict_line(&table, line, machines, stream, number, err);
    }
    csv_line_clear(&table.line);
    file_bytes_clear(&bytes);
    return rc;
}

int main(int argc, char **argv)
{
    struct error err = {.text = ""};
    struct machines *machines;
    int rc = -1;

    if (argc != 2) {
        fprintf(stderr, "usage: rows FILE.csv (\"-\": standard input)\n");
        return 2;
    }
    machines = machines_open(TOP_SRCDIR "/t/plan/machines", &err);
    if (machines)
        rc = predict_file(argv[1], machines, stdout, &err);
    machines_destroy(machines);
    if (rc < 0)
        fprintf(stderr, "rows: %s\n", err.text);
    return rc < 0 ? 2 : 0;
}
