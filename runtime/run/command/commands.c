/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include <stddef.h>

const struct command *const commands[] = {
    &command_preprocess,
    &command_data,
    &command_image,
    &command_tokenize,
    &command_detokenize,
    &command_tokenizer,
    &command_topo,
    &command_plan,
    &command_preflight,
    &command_train,
    &command_evaluate,
    &command_generate,
    &command_fill_mask,
    &command_comm_test,
    &command_checkpoint,
    &command_supervise,
    &command_launch,
    &command_report,
    &command_version,
    NULL,
};
