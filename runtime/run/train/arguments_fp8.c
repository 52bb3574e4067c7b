/* SPDX-License-Identifier: Apache-2.0 */
/* Options of fp8, with Megatron's names, defaults and meanings. */
#include "arguments_private.h"
#include "engine/model/fp8_layers.h"
#include "run/checkpoint/scaling_file.h"

#include <inttypes.h>
#include <stdio.h>

/* Indices of the words of --fp8-recipe. */
enum { RECIPE_DELAYED, RECIPE_TENSORWISE, RECIPE_BLOCKWISE, RECIPE_MXFP8 };

static int check_recipe(const struct arguments *a, struct error *err)
{
    if (a->precision.fp8.recipe == RECIPE_MXFP8)
        return error_set(err, "--fp8-recipe mxfp8 is not supported: its block scales need a "
                              "Blackwell GPU; use delayed, tensorwise or blockwise");
    if (a->precision.fp8.first_last && a->precision.fp8.recipe == RECIPE_DELAYED)
        return error_set(err, "--first-last-layers-bf16 cannot be used with delayed scaling; use "
                              "--fp8-recipe tensorwise or blockwise");
    if (a->precision.fp8.first_last &&
        a->precision.fp8.start_layers >=
            a->model.network.shape.layers - a->precision.fp8.end_layers)
        return error_set(err,
                         "--num-layers-at-start-in-bf16=%" PRId64
                         " and --num-layers-at-end-in-bf16=%" PRId64 " leave none of the %" PRId64
                         " layers in fp8; lower them",
                         a->precision.fp8.start_layers, a->precision.fp8.end_layers,
                         a->model.network.shape.layers);
    return 0;
}

/* The type of everything that is not fp8. The CPU device emulates fp8 next to fp32. */
static int check_type(const struct arguments *a, struct error *err)
{
    if (!a->precision.bf16 && !arguments_on_cpus(a))
        return error_set(
            err, "--fp8-format requires --bf16, the type of everything that is not in fp8; add it");
    return 0;
}

/* Checkpoints must be able to hold the history. */
static int check_history(const struct model_config *config, struct error *err)
{
    struct scaling_rules rules = fp8_rules(config);
    int64_t most = scaling_file_longest(rules.count);

    if (rules.length <= most)
        return 0;
    return error_set(err,
                     "--fp8-amax-history-len=%" PRId64 " is too long: with %" PRId64
                     " layers a checkpoint holds up to %" PRId64 " steps; lower it",
                     rules.length, config->network.shape.layers, most);
}

static const char *blockwise_words(const struct fp8_config *f)
{
    return f->recipe == FP8_BLOCKWISE ? " with blockwise scaling" : "";
}

int arguments_fp8(struct arguments *a, struct error *err)
{
    struct fp8_config *f = &a->model_config.numerics.fp8;
    struct model_sizes sizes;
    int64_t unit;
    int any = 0;

    if (a->precision.fp8.format < 0)
        return 0;
    if (check_recipe(a, err) < 0 || check_type(a, err) < 0)
        return -1;
    *f = (struct fp8_config){
        .format = a->precision.fp8.format == 0 ? FP8_E4M3 : FP8_HYBRID,
        .recipe = a->precision.fp8.recipe == RECIPE_DELAYED      ? FP8_DELAYED
                  : a->precision.fp8.recipe == RECIPE_TENSORWISE ? FP8_TENSORWISE
                                                                 : FP8_BLOCKWISE,
        .margin = a->precision.fp8.margin,
        .history = a->precision.fp8.history,
        .most_recent = a->precision.fp8.algorithm == 0,
        .bf16_wgrad = !a->precision.fp8.wgrad,
        .bf16_fc2_input = a->precision.fp8.bf16_fc2_input,
        .first_bf16 = a->precision.fp8.first_last ? a->precision.fp8.start_layers : 0,
        .last_bf16 = a->precision.fp8.first_last ? a->precision.fp8.end_layers : 0,
        .gather = a->precision.fp8.param_gather,
    };
    if (check_history(&a->model_config, err) < 0)
        return -1;
    sizes = model_sizes(&a->model_config, &a->layout);
    for (int kind = 0; kind < LINEAR_KINDS; kind++)
        any |= fp8_products(&a->model_config, &sizes, (enum linear_kind)kind);
    unit = fp8_unit(&a->model_config);
    if (sizes.rows % unit)
        return error_set(err,
                         "fp8%s: the number of tokens per rank must be a multiple of %" PRId64 "; "
                         "--micro-batch-size x --seq-length / --context-parallel-size is %" PRId64
                         "; change one of them",
                         blockwise_words(f), unit, sizes.rows);
    if (!any)
        return error_set(
            err,
            "fp8%s needs linear layers whose sizes are multiples of %" PRId64
            ", and this model has none: --hidden-size=%" PRId64 ", --ffn-hidden-size=%" PRId64
            ", --kv-channels=%" PRId64 ", --tensor-model-parallel-size=%" PRId64
            "; drop --fp8-format or change these",
            blockwise_words(f), unit, a->model.network.shape.hidden,
            a->model.network.shape.ffn_hidden, a->model.network.shape.kv_channels, a->layout.tp);
    return 0;
}

/* --- What is computed in fp8, in words -------------------------------------------------------- */

static void print_exceptions(const struct arguments *a, const struct model_sizes *sizes,
                             const char *other, FILE *stream)
{
    const struct fp8_config *f = &a->model_config.numerics.fp8;

    for (int kind = 0; kind < LINEAR_KINDS; kind++) {
        int64_t in, out;

        linear_kind_sizes(sizes, (enum linear_kind)kind, &in, &out);
        if (!fp8_products(&a->model_config, sizes, (enum linear_kind)kind))
            fprintf(stream,
                    " > fp8: %s of every layer stays in %s: its %" PRId64 " inputs and %" PRId64
                    " outputs per rank are not both multiples of %" PRId64 "\n",
                    linear_kind_name((enum linear_kind)kind), other, in, out,
                    fp8_unit(&a->model_config));
    }
    if (f->first_bf16 > 0)
        fprintf(stream, " > fp8: the first %" PRId64 " layer%s in %s\n", f->first_bf16,
                f->first_bf16 == 1 ? " stays" : "s stay", other);
    if (f->last_bf16 > 0)
        fprintf(stream, " > fp8: the last %" PRId64 " layer%s in %s\n", f->last_bf16,
                f->last_bf16 == 1 ? " stays" : "s stay", other);
    if (f->gather)
        fprintf(stream, " > fp8: weights are kept and gathered in e4m3\n");
    if (f->bf16_wgrad)
        fprintf(stream, " > fp8: gradients of weights stay in %s\n", other);
    if (f->bf16_fc2_input)
        fprintf(stream, " > fp8: products with the input of fc2 stay in %s\n", other);
}

void arguments_print_fp8(const struct arguments *a, FILE *stream)
{
    const struct fp8_config *f = &a->model_config.numerics.fp8;
    const char *other = a->precision.bf16 ? "bf16" : "fp32";
    struct model_sizes sizes = model_sizes(&a->model_config, &a->layout);

    if (f->format == FP8_NONE)
        return;
    fprintf(stream, " > fp8: linear layers in %s",
            f->format == FP8_HYBRID ? "e4m3, their gradients in e5m2" : "e4m3");
    if (f->recipe == FP8_TENSORWISE)
        fprintf(stream, ", tensorwise scaling");
    else if (f->recipe == FP8_BLOCKWISE)
        fprintf(stream, ", blockwise scaling by powers of two");
    else
        fprintf(stream, ", delayed scaling by the %s amax of %" PRId64 " step%s, margin %" PRId64,
                f->most_recent ? "most recent" : "largest", f->history, f->history == 1 ? "" : "s",
                f->margin);
    fprintf(stream, "%s\n", a->precision.bf16 ? "" : ", emulated on the CPU");
    print_exceptions(a, &sizes, other, stream);
}
