/* SPDX-License-Identifier: Apache-2.0 */
#include "log_line.h"
#include "base/core/report_records.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

/* Digits of a number in JSON. */
enum { DIGITS = 9 };

void log_line_print(const struct log_line *l, FILE *stream)
{
    time_t now = time(NULL);
    struct tm parts;
    char when[32];

    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", localtime_r(&now, &parts));
    fprintf(stream,
            " [%s] iteration %8" PRId64 "/%8" PRId64 " | consumed samples: %12" PRId64
            " | elapsed time per iteration (ms): %.1f |",
            when, l->iteration, l->total, l->consumed, l->milliseconds);
    if (l->teraflops >= 0)
        fprintf(stream, " throughput per GPU (TFLOP/s/GPU): %.*f |", l->teraflops >= 10 ? 1 : 4,
                l->teraflops);
    fprintf(stream, " learning rate: %.6E | global batch size: %5" PRId64 " |", l->lr,
            l->batch_size);
    if (l->taken > 0)
        fprintf(stream, " lm loss: %.6E |", l->loss);
    if (l->taken > 0 && !isnan(l->pair_loss))
        fprintf(stream, " sop loss: %.6E |", l->pair_loss);
    fprintf(stream, " loss scale: %.1f |", l->loss_scale);
    if (l->taken > 0)
        fprintf(stream, " grad norm: %.3f |", l->grad_norm);
    if (l->params_norm >= 0)
        fprintf(stream, " params norm: %.3f |", l->params_norm);
    fprintf(stream,
            " number of skipped iterations: %3" PRId64 " | number of nan iterations: %3" PRId64
            " |",
            l->skipped, l->nans);
    if (l->eta >= 60)
        fprintf(stream, " ETA: %" PRId64 "h %02" PRId64 "m |", (int64_t)(l->eta / 3600),
                (int64_t)(l->eta / 60) % 60);
    else if (l->eta >= 0)
        fprintf(stream, " ETA: %" PRId64 "s |", (int64_t)l->eta);
    fprintf(stream, "\n");
}

void log_line_json(const struct log_line *l, struct json_writer *json)
{
    json_open(json, NULL, '{');
    json_put_integer(json, "iteration", l->iteration);
    json_put_integer(json, "consumed_samples", l->consumed);
    json_put_integer(json, "global_batch_size", l->batch_size);
    json_put_number(json, "milliseconds", l->milliseconds, DIGITS);
    json_put_number(json, "learning_rate", l->lr, DIGITS);
    if (l->taken > 0)
        json_put_number(json, "lm_loss", l->loss, DIGITS);
    if (l->taken > 0 && !isnan(l->pair_loss))
        json_put_number(json, "sop_loss", l->pair_loss, DIGITS);
    json_put_number(json, "loss_scale", l->loss_scale, DIGITS);
    if (l->taken > 0)
        json_put_number(json, "grad_norm", l->grad_norm, DIGITS);
    if (l->teraflops >= 0)
        json_put_number(json, "teraflops", l->teraflops, DIGITS);
    if (l->params_norm >= 0)
        json_put_number(json, "params_norm", l->params_norm, DIGITS);
    json_put_integer(json, "skipped", l->skipped);
    json_put_integer(json, "nan", l->nans);
    json_put_integer(json, "time", time(NULL));
    json_close(json);
    json_end_line(json);
}

void log_line_evaluation_json(int64_t iteration, const char *set, double loss, double pair_loss,
                              struct json_writer *json)
{
    json_open(json, NULL, '{');
    json_put_string(json, "record", "validation");
    json_put_integer(json, "version", RECORDS_VERSION);
    json_put_integer(json, "iteration", iteration);
    json_put_string(json, "set", set);
    json_put_number(json, "lm_loss", loss, DIGITS);
    if (!isnan(pair_loss))
        json_put_number(json, "sop_loss", pair_loss, DIGITS);
    json_put_integer(json, "time", time(NULL));
    json_close(json);
    json_end_line(json);
}
