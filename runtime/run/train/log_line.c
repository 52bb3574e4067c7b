/* SPDX-License-Identifier: Apache-2.0 */
#include "log_line.h"
#include "base/core/report_records.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

/* Append formatted text; what does not fit is cut off. */
static void append(char *buffer, size_t size, size_t *used, const char *format, ...)
{
    va_list args;
    int length;

    if (*used >= size)
        return;
    va_start(args, format);
    length = vsnprintf(buffer + *used, size - *used, format, args);
    va_end(args);
    *used += length > 0 ? (size_t)length : 0;
}

void log_line_format(const struct log_line *l, char *buffer, size_t size)
{
    time_t now = time(NULL);
    struct tm parts;
    char when[32];
    size_t used = 0;

    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", localtime_r(&now, &parts));
    append(buffer, size, &used,
           " [%s] iteration %8" PRId64 "/%8" PRId64 " | consumed samples: %12" PRId64
           " | elapsed time per iteration (ms): %.1f |",
           when, l->iteration, l->total, l->consumed, l->milliseconds);
    if (l->teraflops >= 0)
        append(buffer, size, &used, " throughput per GPU (TFLOP/s/GPU): %.*f |",
               l->teraflops >= 10 ? 1 : 4, l->teraflops);
    append(buffer, size, &used, " learning rate: %.6E | global batch size: %5" PRId64 " |", l->lr,
           l->batch_size);
    if (l->taken > 0)
        append(buffer, size, &used, " lm loss: %.6E |", l->loss);
    if (l->taken > 0 && !isnan(l->pair_loss))
        append(buffer, size, &used, " sop loss: %.6E |", l->pair_loss);
    append(buffer, size, &used, " loss scale: %.1f |", l->loss_scale);
    if (l->taken > 0)
        append(buffer, size, &used, " grad norm: %.3f |", l->grad_norm);
    if (l->params_norm >= 0)
        append(buffer, size, &used, " params norm: %.3f |", l->params_norm);
    append(buffer, size, &used,
           " number of skipped iterations: %3" PRId64 " | number of nan iterations: %3" PRId64 " |",
           l->skipped, l->nans);
    if (l->eta >= 0) {
        int64_t minutes = (int64_t)(l->eta / 60);

        if (minutes > 0)
            append(buffer, size, &used, " ETA: %" PRId64 "h %02" PRId64 "m |", minutes / 60,
                   minutes % 60);
        else
            append(buffer, size, &used, " ETA: %" PRId64 "s |", (int64_t)l->eta);
    }
}

/* JSON has no NaN or infinity. */
static void append_number(char *buffer, size_t size, size_t *used, const char *name, double value)
{
    if (isfinite(value))
        append(buffer, size, used, ",\"%s\":%.9g", name, value);
    else
        append(buffer, size, used, ",\"%s\":null", name);
}

void log_line_json(const struct log_line *l, char *buffer, size_t size)
{
    size_t used = 0;

    append(buffer, size, &used,
           "{\"iteration\":%" PRId64 ",\"consumed_samples\":%" PRId64
           ",\"global_batch_size\":%" PRId64,
           l->iteration, l->consumed, l->batch_size);
    append_number(buffer, size, &used, "milliseconds", l->milliseconds);
    append_number(buffer, size, &used, "learning_rate", l->lr);
    if (l->taken > 0)
        append_number(buffer, size, &used, "lm_loss", l->loss);
    if (l->taken > 0 && !isnan(l->pair_loss))
        append_number(buffer, size, &used, "sop_loss", l->pair_loss);
    append_number(buffer, size, &used, "loss_scale", l->loss_scale);
    if (l->taken > 0)
        append_number(buffer, size, &used, "grad_norm", l->grad_norm);
    if (l->teraflops >= 0)
        append_number(buffer, size, &used, "teraflops", l->teraflops);
    if (l->params_norm >= 0)
        append_number(buffer, size, &used, "params_norm", l->params_norm);
    append(buffer, size, &used, ",\"skipped\":%" PRId64 ",\"nan\":%" PRId64 ",\"time\":%lld}",
           l->skipped, l->nans, (long long)time(NULL));
}

void log_line_evaluation_json(int64_t iteration, const char *set, double loss, double pair_loss,
                              char *buffer, size_t size)
{
    size_t used = 0;

    append(buffer, size, &used,
           "{\"record\":\"validation\",\"version\":%d,\"iteration\":%" PRId64 ",\"set\":\"%s\"",
           RECORDS_VERSION, iteration, set);
    append_number(buffer, size, &used, "lm_loss", loss);
    if (!isnan(pair_loss))
        append_number(buffer, size, &used, "sop_loss", pair_loss);
    append(buffer, size, &used, ",\"time\":%lld}\n", (long long)time(NULL));
}
