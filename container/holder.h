/* What a container's holder prints on standard output. An entry point may have written there
 * before: the record is looked for in the stream. */
#ifndef MEGATRON_HOLDER_H
#define MEGATRON_HOLDER_H

#define HOLDER_WORD "\001megatron\002\n"

struct holder_record {
    char word[12]; /* HOLDER_WORD */
    int number;    /* of the process */
};

#endif
