/* SPDX-License-Identifier: Apache-2.0 */
/* The record that a container's holder (the process that keeps its namespaces) writes to standard
 * output when the container is ready. The image's entry point may write there first, so the reader
 * searches the stream for HOLDER_WORD. */
#ifndef MEGATRON_HOLDER_H
#define MEGATRON_HOLDER_H

#define HOLDER_WORD "\001megatron\002\n"

struct holder_record {
    char word[12]; /* HOLDER_WORD */
    int number;    /* process ID of the holder */
};

#endif
