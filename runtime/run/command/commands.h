/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of `megatron`, one file each. */
#ifndef MEGATRON_COMMANDS_H
#define MEGATRON_COMMANDS_H

#include "base/core/command.h"

extern const struct command command_checkpoint;
extern const struct command command_comm_test;
extern const struct command command_detokenize;
extern const struct command command_evaluate;
extern const struct command command_fill_mask;
extern const struct command command_generate;
extern const struct command command_image;
extern const struct command command_launch;
extern const struct command command_report;
extern const struct command command_supervise;
extern const struct command command_tokenize;
extern const struct command command_tokenizer;
extern const struct command command_data;
extern const struct command command_plan;
extern const struct command command_preflight;
extern const struct command command_preprocess;
extern const struct command command_topo;
extern const struct command command_train;
extern const struct command command_version;

/* All of them in the order of `megatron --help`, NULL at the end. */
extern const struct command *const commands[];

#endif
