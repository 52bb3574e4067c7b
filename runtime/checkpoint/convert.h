/* Checkpoints from and to other programs' files: in one process, holding one layer or one tensor at
 * a time, without a device. */
#ifndef MEGATRON_CONVERT_H
#define MEGATRON_CONVERT_H

#include "index.h"
#include "megatron_source.h"

/* Make 'directory' hold a checkpoint, at iteration 0 and without optimizer, of the weights in the
 * Hugging Face folder 'from'. */
int convert_import_hf(const char *from, const char *directory, struct error *err);

/* The same of a checkpoint of Megatron-LM, see megatron_source.h. 'said' gets what a person should
 * know of how it was read. */
int convert_import_megatron(const char *from, const char *directory,
                            const struct megatron_hints *hints, char said[200], struct error *err);

/* Write the weights of the checkpoint in 'from' (an iter_... directory) to the Hugging Face folder
 * 'to', in files of at most 'shard_bytes' each as far as single tensors are not larger. */
int convert_export_hf(const char *from, const char *to, enum device_type type, int64_t shard_bytes,
                      struct error *err);

#endif
