/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of arguments_derive. */
#ifndef MEGATRON_ARGUMENTS_PRIVATE_H
#define MEGATRON_ARGUMENTS_PRIVATE_H

#include "arguments.h"

/* The network's options, in this order: what the preset sets and the command line does not; what
 * does not depend on weights that a run starts from; sizes that follow from others; then everything
 * else, and check the network. */
int arguments_network_preset(struct arguments *arguments, const struct options_result *given,
                             struct error *err);
int arguments_network_words(struct network_arguments *model, struct error *err);
int arguments_network_sizes(struct arguments *arguments, struct error *err);
int arguments_network(struct network_arguments *model, const struct layout *layout,
                      struct error *err);

/* Are the samples made as BERT's, which never mask more than their share of the tokens? */
int arguments_use_bert(const struct arguments *arguments);

/* --recipe and the data of masked language models: 'begin' sets the defaults of a recipe, before
 * anything else; 'files' asks dict.txt or the tokenizer for the vocabulary and its special tokens;
 * 'end' checks the rest, when the layout is known. */
int arguments_recipe_begin(struct arguments *arguments, const struct options_result *given,
                           struct error *err);
int arguments_recipe_files(struct arguments *arguments, const struct options_result *given,
                           struct error *err);
int arguments_recipe_end(struct arguments *arguments, const struct options_result *given,
                         struct error *err);

/* Divide the layers among pipeline stages and virtual stages. */
int arguments_pipeline(struct arguments *arguments, struct error *err);

/* Compute the number of steps, from samples if those are given. */
int arguments_length(struct arguments *arguments, struct error *err);

/* Fill in the step rules: learning rate, weight decay, loss scale. */
int arguments_schedule(struct arguments *arguments, struct error *err);

/* The options of Muon: check them and set the rules of the step. */
int arguments_muon(struct arguments *arguments, struct error *err);

/* Options of fp8, into the model's configuration, when the layout is known. */
int arguments_fp8(struct arguments *arguments, struct error *err);

#endif
