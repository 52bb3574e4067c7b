/* Checkpoints from and to Hugging Face folders: in one process, holding one layer or one tensor at
 * a time, without a device. */
#ifndef MEGATRON_CONVERT_H
#define MEGATRON_CONVERT_H

#include "index.h"

/* Make 'directory' hold a checkpoint, at iteration 0 and without optimizer, of the weights in the
 * Hugging Face folder 'from'. */
int convert_import_hf(const char *from, const char *directory, struct error *err);

/* Write the weights of the checkpoint in 'from' (an iter_... directory) to the Hugging Face folder
 * 'to', rounded to 'type'. */
int convert_export_hf(const char *from, const char *to, enum device_type type, struct error *err);

#endif
