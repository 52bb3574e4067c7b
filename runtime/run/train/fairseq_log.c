/* SPDX-License-Identifier: Apache-2.0 */
#include "fairseq_log.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

/* Python's round(value, digits), then "{:g}". */
static void put(FILE *out, const char *prefix, const char *name, double value, int digits)
{
    char rounded[64];

    if (isnan(value)) {
        fprintf(out, ", \"%s%s\": \"nan\"", prefix, name);
        return;
    }
    if (isinf(value)) {
        fprintf(out, ", \"%s%s\": \"%sinf\"", prefix, name, value < 0 ? "-" : "");
        return;
    }
    if (digits >= 0) {
        snprintf(rounded, sizeof(rounded), "%.*f", digits, value);
        sscanf(rounded, "%lf", &value);
    }
    fprintf(out, ", \"%s%s\": \"%g\"", prefix, name, value);
}

/* Three digits as Python prints them: 0.5, 1.0. */
static void put_update(FILE *out, double update)
{
    char digits[64];
    int length = snprintf(digits, sizeof(digits), "%.3f", update);

    while (length > 2 && digits[length - 1] == '0' && digits[length - 2] != '.')
        length--;
    fprintf(out, "%.*s", length, digits);
}

static void begin(FILE *out, const char *tag, int64_t epoch)
{
    time_t seconds = time(NULL);
    struct tm local;
    char date[32];

    strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", localtime_r(&seconds, &local));
    fprintf(out, "%s | INFO | %s | {\"epoch\": %" PRId64, date, tag, epoch);
}

static void put_loss(FILE *out, const char *prefix, double loss)
{
    put(out, prefix, "loss", loss / log(2), 3);
    put(out, prefix, "ppl", exp2(loss / log(2)), 2);
}

static void put_speed(FILE *out, const char *prefix, const struct fairseq_line *l, bool updates)
{
    double seconds = l->sums.seconds > 0 ? l->sums.seconds : 0;
    double steps = l->sums.steps > 0 ? l->sums.steps : 1;

    put(out, prefix, "wps", seconds > 0 ? l->sums.tokens / seconds : 0, 1);
    if (updates)
        put(out, prefix, "ups", seconds > 0 ? l->sums.steps / seconds : 0, 2);
    put(out, prefix, "wpb", l->sums.tokens / steps, 1);
    put(out, prefix, "bsz", l->sums.sentences / steps, 1);
    put(out, prefix, "num_updates", (double)l->updates, -1);
}

void fairseq_print_steps(const struct fairseq_line *l, bool epoch, FILE *out)
{
    const char *prefix = epoch ? "train_" : "";
    const struct fairseq_sums *s = &l->sums;

    begin(out, epoch ? "train" : "train_inner", l->epoch);
    if (!epoch) {
        fprintf(out, ", \"update\": ");
        put_update(out, l->update);
    }
    put_loss(out, prefix, s->loss / s->weight);
    put_speed(out, prefix, l, true);
    put(out, prefix, "lr", l->lr, -1);
    put(out, prefix, "gnorm", s->taken > 0 ? s->norm / s->taken : l->norm, 3);
    if (l->clips)
        put(out, prefix, "clip", 100 * (s->taken > 0 ? s->clipped / s->taken : 1), 1);
    if (l->scale > 0)
        put(out, prefix, "loss_scale", l->scale, 4);
    put(out, prefix, "train_wall", l->train_wall, 0);
    put(out, prefix, "wall", l->wall, 0);
    fprintf(out, "}\n");
    fflush(out);
}

void fairseq_print_evaluation(const struct fairseq_line *l, const char *name, double loss,
                              double best, FILE *out)
{
    char prefix[32];

    snprintf(prefix, sizeof(prefix), "%s_", name);
    begin(out, name, l->epoch);
    put_loss(out, prefix, loss);
    put_speed(out, prefix, l, false);
    if (!isnan(best))
        put(out, prefix, "best_loss", best / log(2), 3);
    fprintf(out, "}\n");
    fflush(out);
}
