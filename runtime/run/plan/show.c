/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"
#include "base/core/shell_quote.h"

#include <inttypes.h>
#include <string.h>

void show_parts(const struct plan_time *t, struct show_part parts[SHOW_PARTS])
{
    const struct show_part all[SHOW_PARTS] = {
        {"matrix products", "#4477aa", t->products},
        {"attention", "#66ccee", t->attention},
        {"memory-bound", "#228833", t->elementwise},
        {"output layer", "#aaddbb", t->head},
        {"optimizer", "#bbcc33", t->optimizer},
        {"tensor comm.", "#ee6677", t->tensor},
        {"context comm.", "#ee99aa", t->context},
        {"pipeline comm.", "#ccbb44", t->pipeline},
        {"data comm.", "#aa3377", t->data},
        {"bubble", "#bbbbbb", t->bubble},
        {"fixed", "#888888", t->fixed},
    };

    memcpy(parts, all, sizeof(all));
}

const char *show_recompute(enum plan_recompute recompute)
{
    return recompute == PLAN_RECOMPUTE_FULL        ? "full"
           : recompute == PLAN_RECOMPUTE_SELECTIVE ? "selective"
                                                   : "none";
}

const char *show_precision(const struct plan_run *run)
{
    return run->precision == MACHINE_FP8 ? "fp8" : run->bf16 ? "bf16" : "fp16";
}

static bool has_word(const struct show *show, const char *word)
{
    size_t length = strlen(word);

    for (int i = 0; i < show->word_count; i++)
        if (strncmp(show->words[i], word, length) == 0 &&
            (show->words[i][length] == '\0' || show->words[i][length] == '='))
            return true;
    return false;
}

/* How long to train and how often to save. */
static void print_length(const struct show *show, const struct candidate *candidate, FILE *stream)
{
    int64_t steps = outlook_of(candidate, show->request, &show->outlook).interval_steps;

    if (!has_word(show, "--train-samples") && !has_word(show, "--train-iters")) {
        if (show->outlook.tokens > 0)
            fprintf(stream, " --train-samples %.0f",
                    show->outlook.tokens / (double)candidate->run.shape.sequence);
        else
            fputs(" --train-iters N", stream);
    }
    if (!has_word(show, "--save-interval"))
        fprintf(stream, " --save-interval %" PRId64, steps);
}

void show_command(const struct show *show, const struct candidate *candidate, bool plugin,
                  FILE *stream)
{
    const struct own_layout *l = &candidate->layout;
    bool preset = show->word_count > 1 && strcmp(show->words[0], "--megatron-model") == 0;
    int first = 0;

    if (plugin)
        fprintf(stream,
                "sbatch --nodes=%" PRId64 " --ntasks-per-node=%d --gpus-per-node=%d "
                "--megatron-tp=%" PRId64 " --megatron-pp=%" PRId64 " --megatron-cp=%" PRId64,
                show->request->nodes, show->request->machine->gpus, show->request->machine->gpus,
                l->tp, l->pp, l->cp);
    /* As an option of sbatch, the model is checked before the job is queued. */
    if (plugin && preset) {
        fprintf(stream, " --megatron-model=%s", show->words[1]);
        first = 2;
    }
    fputs(plugin ? " train.sbatch" : "megatron train", stream);
    for (int i = first; i < show->word_count; i++) {
        fputc(' ', stream);
        shell_quote(show->words[i], stream);
    }
    if (!plugin && l->tp > 1)
        fprintf(stream, " --tensor-model-parallel-size %" PRId64, l->tp);
    if (!plugin && l->pp > 1)
        fprintf(stream, " --pipeline-model-parallel-size %" PRId64, l->pp);
    if (!plugin && l->cp > 1)
        fprintf(stream, " --context-parallel-size %" PRId64, l->cp);
    if (l->chunks > 1)
        fprintf(stream, " --num-layers-per-virtual-pipeline-stage %" PRId64,
                candidate->run.shape.layers / (l->pp * l->chunks));
    fprintf(stream, " --micro-batch-size %" PRId64, l->micro_batch);
    if (l->fp8)
        fputs(" --fp8-format hybrid", stream);
    if (l->recompute == PLAN_RECOMPUTE_SELECTIVE)
        fputs(" --recompute-granularity selective", stream);
    if (l->recompute == PLAN_RECOMPUTE_FULL)
        fputs(" --recompute-granularity full --recompute-method uniform", stream);
    print_length(show, candidate, stream);
    /* The words in capitals are for the user to fill in; the job script knows where to save. */
    if (!plugin && !has_word(show, "--save"))
        fputs(" --save DIR", stream);
    if (!has_word(show, "--lr"))
        fputs(" --lr LR", stream);
    if (!has_word(show, "--data-path") && !has_word(show, "--mock-data"))
        fputs(" --data-path PREFIX", stream);
}
