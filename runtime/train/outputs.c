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
    outputs->perplexity = a->log_validation_ppl;
    if (a->log_world_size)
        outputs->world_size = a->layout.tp * a->layout.cp * a->layout.dp * a->layout.pp;
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

/* A scalar over the steps and, as Megatron has it, over the samples. */
static void write_both(struct event_file *e, const char *tag, const struct log_line *line,
                       double value)
{
    char name[64];

    event_file_scalar(e, tag, line->iteration, value);
    snprintf(name, sizeof(name), "%s vs samples", tag);
    event_file_scalar(e, name, line->consumed, value);
}

static void write_events(const struct outputs *outputs, const struct log_line *line)
{
    struct event_file *e = outputs->events;

    write_both(e, "learning-rate", line, line->lr);
    write_both(e, "batch-size", line, (double)line->batch_size);
    if (line->taken > 0) {
        write_both(e, "lm loss", line, line->loss);
        write_both(e, "grad-norm", line, line->grad_norm);
    }
    write_both(e, "loss-scale", line, line->loss_scale);
    if (outputs->world_size > 0)
        write_both(e, "world-size", line, (double)outputs->world_size);
    if (line->params_norm >= 0)
        write_both(e, "params-norm", line, line->params_norm);
    if (line->memory >= 0)
        event_file_scalar(e, "mem-allocated-bytes", line->iteration, line->memory);
    event_file_scalar(e, "iteration-time", line->iteration, line->milliseconds / 1000);
    if (line->teraflops >= 0)
        event_file_scalar(e, "throughput", line->iteration, line->teraflops);
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
        write_events(outputs, line);
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

void outputs_records(struct outputs *outputs, const char *lines, size_t size)
{
    if (outputs->metrics && size > 0)
        append_file_add(outputs->metrics, lines, size);
}

static void print_rule(int width)
{
    for (int i = 0; i < width; i++)
        putchar('-');
    printf("\n");
}

static void write_evaluation_events(const struct outputs *outputs, int64_t iteration,
                                    int64_t consumed, const char *set, double loss)
{
    const double values[] = {loss, exp(loss > 20 ? 20 : loss)};
    static const char *const kinds[] = {"", " ppl"};

    for (int i = 0; i < (outputs->perplexity ? 2 : 1); i++) {
        char tag[64];

        snprintf(tag, sizeof(tag), "lm loss %s%s", set, kinds[i]);
        event_file_scalar(outputs->events, tag, iteration, values[i]);
        snprintf(tag, sizeof(tag), "lm loss %s%s vs samples", set, kinds[i]);
        event_file_scalar(outputs->events, tag, consumed, values[i]);
    }
}

void outputs_evaluation(struct outputs *outputs, int64_t iteration, int64_t consumed, int test,
                        const char *what, double loss)
{
    const char *set = test ? "test" : "validation";
    char text[320], bits[48] = "";
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
        write_evaluation_events(outputs, iteration, consumed, set, loss);
    if (outputs->metrics) {
        log_line_evaluation_json(iteration, set, loss, text, sizeof(text));
        append_file_add(outputs->metrics, text, strlen(text));
    }
    flush(outputs);
}
