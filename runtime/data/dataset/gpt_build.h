/* SPDX-License-Identifier: Apache-2.0 */
/* Build the arrays of gpt_index.h into a file of the index cache. */
#ifndef MEGATRON_GPT_BUILD_H
#define MEGATRON_GPT_BUILD_H

#include "gpt_index.h"

struct gpt_build {
    const struct gpt_request *request;
    int threads;
};

/* An index_builder; 'arg' is a struct gpt_build. */
int gpt_build(void *arg, struct index_writer *writer, struct error *err);

#endif
