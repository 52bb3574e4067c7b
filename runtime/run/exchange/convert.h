/* SPDX-License-Identifier: Apache-2.0 */
/* Convert checkpoints from and to the files of other programs: in one process, holding one layer or
 * one tensor at a time, without a device.
 *
 *     convert_import_hf("Llama-2-7b-hf", "run", &err);
 *     ... train from run/ ...
 *     convert_export_hf("run/iter_0001000", "Llama-2-7b-mine", TYPE_BF16, HF_SHARD_BYTES, &err);
 *
 * hf.h loads and saves Hugging Face weights in all ranks of a running model, and origin.h tells
 * what a directory contains. The formats: hf_*.c (hf_families.c lists the decoders, hf_masked.c
 * the masked models), megatron_*.c, torch_dist*.c, fairseq_source.c; below them are the readers and
 * writers of safetensors, torch.save (torch_*.c), pickles and zip archives. */
#ifndef MEGATRON_CONVERT_H
#define MEGATRON_CONVERT_H

#include "run/checkpoint/index.h"
#include "megatron_save.h"
#include "megatron_source.h"

/* Create a checkpoint in 'directory', at iteration 0 and without optimizer state, from the weights
 * in the Hugging Face directory 'from'. */
int convert_import_hf(const char *from, const char *directory, struct error *err);

/* Import a Megatron-LM checkpoint in the same way, see megatron_source.h. 'said' describes how it
 * was interpreted. */
int convert_import_megatron(const char *from, const char *directory,
                            const struct megatron_hints *hints, char said[200], struct error *err);

/* Import a model of fairseq in the same way; 'heads' is described in fairseq_source.h. */
int convert_import_fairseq(const char *from, const char *directory, int64_t heads,
                           struct error *err);

/* Write the weights of the checkpoint in 'from' (an iter_... directory) to the Hugging Face
 * directory 'to', in files of at most 'shard_bytes' each unless a single tensor is larger. */
int convert_export_hf(const char *from, const char *to, enum device_type type, int64_t shard_bytes,
                      struct error *err);

/* Write the weights as a Megatron-LM checkpoint in 'to', which must not contain one: in its
 * directory iter_..., or release for iteration 0, and the file that names it. */
int convert_export_megatron(const char *from, const char *to, const struct megatron_target *target,
                            struct error *err);

/* Read parameter 'number' of the whole model, without the padding of a vocabulary, from the
 * checkpoint in 'from'. The caller frees it; NULL with 'err' set. */
float *export_read(const char *from, const struct checkpoint_index *index,
                   const struct parameters *parameters, int number, struct error *err);

/* Convert in place to 'type': a 16-bit number takes less space than its source. A number must not
 * become infinite. */
int export_round(enum device_type type, const char *name, float *values, int64_t count,
                 struct error *err);

#endif
