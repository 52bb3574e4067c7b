/* SPDX-License-Identifier: Apache-2.0 */
#include "outputs.h"
#include "log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int outputs_open(struct outputs *outputs, const struct arguments *a, struct error *err)
{
    memset(outputs, 0, sizeof(*outputs));
    outputs->bits = a->masked;
    outputs->silent = a->mlm.log_format == LOG_JSON;
    if (a->tensorboard_dir) {
        outputs->events = event_file_create(a->tensorboard_dir, err);
        if (!outputs->events)
            return -1;
    }
    if (a->metrics_file) {
        outputs->metrics = append_file_open(a->metrics_file, 0, err);
        if (!outputs->metrics)
            return error_prefix(err, "--metrics-file");
    }
    return 0;
}

void outputs_close(struct outputs *outputs)
{
    struct error trouble;

    if (event_file_close(outputs->events, &trouble) < 0)
        log_warning("%s", trouble.text);
    if (append_file_close(outputs->metrics, &trouble) < 0)
        log_warning("%s", trouble.text);
    memset(outputs, 0, sizeof(*outputs));
}

static void write_events(struct event_file *e, const struct log_line *line)
{
    int64_t step = line->iteration;

    event_file_scalar(e, "learning-rate", step, line->lr);
    event_file_scalar(e, "batch-size", step, (double)line->batch_size);
    if (line->taken > 0) {
        event_file_scalar(e, "lm loss", step, line->loss);
        event_file_scalar(e, "lm loss vs samples", line->consumed, line->loss);
        event_file_scalar(e, "grad-norm", step, line->grad_norm);
    }
    event_file_scalar(e, "loss-scale", step, line->loss_scale);
    event_file_scalar(e, "iteration-time", step, line->milliseconds / 1000);
    if (line->teraflops >= 0)
        event_file_scalar(e, "throughput", step, line->teraflops);
}

static void flush(struct outputs *outputs)
{
    struct error trouble;
    int rc = outputs->events ? event_file_flush(outputs->events, &trouble) : 0;

    if (outputs->metrics && append_file_flush(outputs->metrics, &trouble) < 0)
        rc = -1;
    if (rc < 0 && !outputs->warned)
        log_warning("%s; training continues", trouble.text);
    outputs->warned = rc < 0;
}

void outputs_steps(struct outputs *outputs, const struct log_line *line)
{
    char text[1024];

    if (!outputs->silent) {
        log_line_format(line, text, sizeof(text));
        printf("%s\n", text);
        fflush(stdout);
    }
    if (outputs->events)
        write_events(outputs->events, line);
    if (outputs->metrics) {
        log_line_json(line, text, sizeof(text) - 1);
        strcat(text, "\n");
        append_file_add(outputs->metrics, text, strlen(text));
    }
    flush(outputs);
}

void outputs_line(struct outputs *outputs, const char *text)
{
    (void)outputs;
    printf("%s\n", text);
    fflush(stdout);
}

static void print_rule(int width)
{
    for (int i = 0; i < width; i++)
        putchar('-');
    printf("\n");
}

void outputs_evaluation(struct outputs *outputs, int64_t iteration, const char *what, double loss)
{
    char text[240], bits[48] = "";
    int width;

    if (isnan(loss))
        loss = NAN; /* print "nan", never "-nan" */
    /* The loss of masked models is often given to base 2, as by fairseq; its perplexity is the
     * same.
     */
    if (outputs->bits)
        snprintf(bits, sizeof(bits), "lm loss in bits: %.6E | ", loss / M_LN2);
    width = snprintf(text, sizeof(text),
                     " validation loss at %s | lm loss value: %.6E | lm loss PPL: %.6E | %s", what,
                     loss, exp(loss > 20 ? 20 : loss), bits);
    print_rule(width);
    printf("%s\n", text);
    print_rule(width);
    fflush(stdout);
    if (outputs->events)
        event_file_scalar(outputs->events, "lm loss validation", iteration, loss);
}
