/* SPDX-License-Identifier: Apache-2.0 */
#include "outputs.h"
#include "base/core/storage.h"
#include "base/core/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int outputs_open(struct outputs *outputs, const struct arguments *a, struct error *err)
{
    memset(outputs, 0, sizeof(*outputs));
    outputs->bits = a->model.network.masked;
    outputs->perplexity = a->output.log_validation_ppl;
    if (a->output.log_world_size)
        outputs->world_size = a->layout.tp * a->layout.cp * a->layout.dp * a->layout.pp;
    outputs->silent = a->mlm.log_format == LOG_JSON;
    if (a->output.tensorboard_dir) {
        outputs->events = event_file_create(a->output.tensorboard_dir, err);
        if (!outputs->events)
            return file_path_error(err);
    }
    if (a->output.wandb_project) {
        const struct wandb_names names = {a->output.wandb_project, a->output.wandb_name,
                                          a->output.wandb_entity};
        const char *directory = a->output.wandb_dir  ? a->output.wandb_dir
                                : a->checkpoint.save ? a->checkpoint.save
                                                     : ".";

        outputs->wandb = wandb_file_create(directory, &names, err);
        if (!outputs->wandb)
            return file_path_error(err);
        log_note("Weights & Biases: `wandb sync %s` uploads this run",
                 wandb_file_directory(outputs->wandb));
    }
    if (a->output.metrics_file) {
        outputs->metrics = append_file_open(a->output.metrics_file, 0, err);
        if (!outputs->metrics) {
            file_path_error(err);
            return error_prefix(err, "--metrics-file");
        }
    }
    return 0;
}

void outputs_close(struct outputs *outputs)
{
    struct error trouble;

    if (event_file_close(outputs->events, &trouble) < 0)
        log_warning("%s", trouble.text);
    if (wandb_file_close(outputs->wandb, &trouble) < 0)
        log_warning("%s", trouble.text);
    if (append_file_close(outputs->metrics, &trouble) < 0)
        log_warning("%s", trouble.text);
    memset(outputs, 0, sizeof(*outputs));
}

static void write_scalar(const struct outputs *outputs, const char *tag, int64_t iteration,
                         double value)
{
    if (outputs->events)
        event_file_scalar(outputs->events, tag, iteration, value);
    if (outputs->wandb)
        wandb_file_scalar(outputs->wandb, tag, iteration, value);
}

/* A scalar by step and, as Megatron writes it to TensorBoard, by sample. */
static void write_both(const struct outputs *outputs, const char *tag, int64_t iteration,
                       int64_t consumed, double value)
{
    char name[64];

    write_scalar(outputs, tag, iteration, value);
    if (!outputs->events)
        return;
    snprintf(name, sizeof(name), "%s vs samples", tag);
    event_file_scalar(outputs->events, name, consumed, value);
}

static void write_steps(const struct outputs *outputs, const struct log_line *line)
{
    const struct {
        const char *tag;
        int written;
        double value;
    } rows[] = {
        {"learning-rate", 1, line->lr},
        {"batch-size", 1, (double)line->batch_size},
        {"lm loss", line->taken > 0, line->loss},
        {"sop loss", line->taken > 0 && !isnan(line->pair_loss), line->pair_loss},
        {"grad-norm", line->taken > 0, line->grad_norm},
        {"loss-scale", 1, line->loss_scale},
        {"world-size", outputs->world_size > 0, (double)outputs->world_size},
        {"params-norm", line->params_norm >= 0, line->params_norm},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].written)
            write_both(outputs, rows[i].tag, line->iteration, line->consumed, rows[i].value);
    if (line->memory >= 0)
        write_scalar(outputs, "mem-allocated-bytes", line->iteration, line->memory);
    write_scalar(outputs, "iteration-time", line->iteration, line->milliseconds / 1000);
    if (line->teraflops >= 0)
        write_scalar(outputs, "throughput", line->iteration, line->teraflops);
}

static void flush(struct outputs *outputs)
{
    struct error trouble;
    int rc = outputs->events ? event_file_flush(outputs->events, &trouble) : 0;

    if (outputs->wandb && wandb_file_flush(outputs->wandb, &trouble) < 0)
        rc = -1;
    if (outputs->metrics && append_file_flush(outputs->metrics, &trouble) < 0)
        rc = -1;
    if (rc < 0 && !outputs->warned)
        log_warning("%s; training continues", trouble.text);
    outputs->warned = rc < 0;
}

void outputs_steps(struct outputs *outputs, const struct log_line *line)
{
    struct json_writer json = {.stream = NULL};

    if (!outputs->silent) {
        log_line_print(line, stdout);
        fflush(stdout);
    }
    write_steps(outputs, line);
    log_line_json(line, &json);
    outputs_records(outputs, &json);
    flush(outputs);
}

void outputs_records(struct outputs *outputs, struct json_writer *json)
{
    if (outputs->metrics && json->size > 0)
        append_file_add(outputs->metrics, json->data, json->size);
    json_writer_clear(json);
}

static void print_rule(int width)
{
    for (int i = 0; i < width; i++)
        putchar('-');
    printf("\n");
}

static void write_evaluation(const struct outputs *outputs, int64_t iteration, int64_t consumed,
                             const char *set, double loss)
{
    const double values[] = {loss, exp(loss > 20 ? 20 : loss)};
    static const char *const kinds[] = {"", " ppl"};

    for (int i = 0; i < (outputs->perplexity ? 2 : 1); i++) {
        char tag[48];

        snprintf(tag, sizeof(tag), "lm loss %s%s", set, kinds[i]);
        write_both(outputs, tag, iteration, consumed, values[i]);
    }
}

void outputs_evaluation(struct outputs *outputs, int64_t iteration, int64_t consumed, int test,
                        const char *what, double loss, double pair_loss)
{
    const char *set = test ? "test" : "validation";
    struct json_writer json = {.stream = NULL};
    char text[400], bits[48] = "", pair[48] = "", tag[48];
    int width;

    if (isnan(loss))
        loss = NAN; /* print "nan", never "-nan" */
    /* The loss of masked models is often given to base 2, as by fairseq; its perplexity is the
     * same.
     */
    if (outputs->bits)
        snprintf(bits, sizeof(bits), "lm loss in bits: %.6E | ", loss / M_LN2);
    if (!isnan(pair_loss))
        snprintf(pair, sizeof(pair), "sop loss value: %.6E | ", pair_loss);
    width = snprintf(text, sizeof(text),
                     " validation loss at %s | lm loss value: %.6E | lm loss PPL: %.6E | %s%s",
                     what, loss, exp(loss > 20 ? 20 : loss), bits, pair);
    if (!outputs->silent) {
        print_rule(width);
        printf("%s\n", text);
        print_rule(width);
        fflush(stdout);
    }
    write_evaluation(outputs, iteration, consumed, set, loss);
    if (!isnan(pair_loss)) {
        snprintf(tag, sizeof(tag), "sop loss %s", set);
        write_both(outputs, tag, iteration, consumed, pair_loss);
    }
    log_line_evaluation_json(iteration, set, loss, pair_loss, &json);
    outputs_records(outputs, &json);
    flush(outputs);
}
