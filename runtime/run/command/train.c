/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "run/train/arguments.h"
#include "run/train/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_help(int evaluate)
{
    struct arguments defaults;

    if (evaluate)
        printf("Usage: megatron evaluate --load DIR [OPTION...]\n"
               "Compute loss and perplexity of a checkpoint (--load) or of Hugging Face weights "
               "(--load-hf) on\n"
               "validation and test data; the same as `megatron train --skip-train`.\n"
               "With --pseudo-perplexity, that of texts by a masked language model; the options "
               "are those of\n"
               "`megatron fill-mask`.\n");
    else
        printf("Usage: megatron train [OPTION...]\n"
               "Train a GPT, Llama, RoBERTa or BERT model, with one process per rank started by "
               "srun or "
               "mpirun.\n");
    arguments_default(&defaults);
    options_print(arguments_table, &defaults, stdout);
    printf("\nSee megatron-%s(1).\n", evaluate ? "evaluate" : "train");
}

/* Report wrong options once; of_node: the problem is on this node, so report it once per node. */
static int refuse(int of_node, struct error *err)
{
    if (!of_node)
        err->code = ERROR_USAGE;
    return world_say_once(of_node, err);
}

static int run(struct arguments *arguments, const struct options_result *result, struct error *err)
{
    struct world world;
    int known = world_read(&world, err) == 0, rc;

    /* --help works in any environment. */
    if (result->help || (arguments->model.preset && strcmp(arguments->model.preset, "list") == 0)) {
        if (!known || world.rank == 0)
            result->help ? print_help(arguments->run.skip_train) : preset_print(stdout);
        return 0;
    }
    if (!known)
        return -1;
    if (result->word_count > 0) {
        error_set(err, "unexpected argument %s; options begin with two dashes", result->words[0]);
        return refuse(0, err);
    }
    if (arguments_derive(arguments, result, &world, err) < 0)
        return refuse(arguments->reads_files, err);
    if (world.rank == 0)
        arguments_warn(arguments, result);
    if (arguments->output.dry_run)
        return world.rank == 0 ? train_dry_run(arguments, err) : 0;
    if (strcmp(world.source, "default") != 0 && strcmp(world.source, "RANK") != 0 &&
        world_die_with_parent(err) < 0)
        return -1;
    rc = train_run(arguments, &world, err);
    return rc == TRAIN_REFUSED ? EXIT_USAGE : rc;
}

static int run_parsed(int argc, const char *const *argv, int evaluate, struct error *err)
{
    struct arguments arguments;
    struct options_result result = {0};
    int rc;

    arguments_default(&arguments);
    arguments.run.skip_train = evaluate;
    rc = options_parse(arguments_table, &arguments, argc, argv, &result, err);
    rc = rc < 0 ? refuse(0, err) : run(&arguments, &result, err);
    options_result_clear(&result);
    free(arguments.run.rampup.items);
    data_files_clear(&arguments);
    return rc;
}

static int run_train(int argc, const char *const *argv, struct error *err)
{
    return run_parsed(argc, argv, 0, err);
}

/* Pseudo-perplexities are computed from texts, not from training data. */
static int run_evaluate(int argc, const char *const *argv, struct error *err)
{
    for (int i = 0; i < argc; i++)
        if (option_after(argv[i], "--pseudo-perplexity"))
            return command_run(&command_fill_mask, argc, argv, err);
    return run_parsed(argc, argv, 1, err);
}

const struct command command_train = {
    .name = "train",
    .summary = "train a GPT, Llama, RoBERTa or BERT model",
    .run_words = run_train,
};

const struct command command_evaluate = {
    .name = "evaluate",
    .summary = "compute loss and perplexity of a checkpoint",
    .run_words = run_evaluate,
};
