/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "lib/file.h"
#include "base/core/storage.h"
#include "base/core/log.h"
#include "base/core/option_rows.h"
#include "base/core/memory_stream.h"
#include "run/report/page.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct report_options {
    const char *output;
    struct option_list names;
    int separate;
    double peak;
};

#define AT(field) offsetof(struct report_options, field)
static const struct option table[] = {
    TEXT("output", output, "FILE", "HTML file to write, - for standard output (also -o)"),
    SHORT("o", "output"),
    TEXTS("name", names, "NAME",
          "name of a run in the report; give it once per run, in order (default: the directory's "
          "name)"),
    FLAG("separate", separate,
         "each FILE is a run of its own; otherwise all FILEs are starts of one run"),
    QUANTITY(
        "peak-tflops", peak, "N",
        "peak TFLOP/s of a GPU, for MFU (default: dense bf16 peak of the GPU that the log names)"),
    {0},
};

static int write_page(const struct report_options *given, const struct options_result *result,
                      struct error *err)
{
    struct input_options options = {
        .words = result->words,
        .word_count = result->word_count,
        .names = given->names.items,
        .name_count = given->names.count,
        .separate = given->separate,
        .peak = given->peak > 0 ? given->peak : NAN,
        .output = strcmp(given->output, "-") == 0 ? NULL : given->output,
    };
    struct output output;
    struct input input;
    int rc = input_read(&input, &options, err);

    if (rc == 0) {
        output_open(&output);
        page_write(&input, output.stream);
        for (size_t i = 0; i < input.notes.count; i++)
            log_warning("%s", input.notes.items[i]);
        rc = output_write(&output, given->output, err);
    }
    input_clear(&input);
    return rc;
}

static int run_report(void *context, const struct options_result *result, struct error *err)
{
    const struct report_options *given = context;

    if (result->word_count == 0)
        return error_set_code(
            err, ERROR_USAGE,
            "nothing to report on; name the directory of a run, or its logs and metrics files");
    if (!given->output)
        return error_set_code(err, ERROR_USAGE,
                              "no output file; name the file to write with -o FILE");
    if (options_given(result, "peak-tflops") && !(given->peak > 0))
        return error_set_code(err, ERROR_USAGE, "--peak-tflops must be above 0");
    return write_page(given, result, err);
}

const struct command command_report = {
    .name = "report",
    .summary = "write a report of training runs as one HTML file",
    .usage = "Usage: megatron report DIR... -o FILE\n"
             "       megatron report LOG... [METRICS...] -o FILE\n"
             "Write a report of training runs as one HTML file, from the logs and metrics of each "
             "run and\nall its restarts. Logs of Megatron-LM work too.\n",
    .options = table,
    .size = sizeof(struct report_options),
    .run = run_report,
};
