/* The record that a container's holder writes to standard output. The image's entry point may have
 * written output before it, so the reader searches the stream for the record. */
#ifndef MEGATRON_HOLDER_H
#define MEGATRON_HOLDER_H

#define HOLDER_WORD "\001megatron\002\n"

struct holder_record {
    char word[12]; /* HOLDER_WORD */
    int number;    /* of the holder process */
};

#endif
