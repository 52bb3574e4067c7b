/* What hf.c shares with the reader and writer of single tensors. */
#ifndef MEGATRON_HF_PRIVATE_H
#define MEGATRON_HF_PRIVATE_H

#include "model_config.h"
#include "parameters.h"
#include "safetensors.h"

/* Where one of our tensors lies in theirs. '%d' is the layer. */
struct hf_name {
    const char *ours, *theirs;
    int transposed; /* GPT-2 stores (in, out) */
    int part, size; /* a fused tensor: which part of how many rows of ours stands before it */
};

/* Their names for this network's tensors, or NULL where they have no such network. */
const struct hf_name *hf_names_of(const struct model_config *config, struct error *err);

/* This rank's part of one parameter, from their tensors. */
int hf_load_one(const struct hf_name *table, const struct safetensors *tensors,
                const struct parameter *p, float *out, struct error *err);

/* All tensors of the whole model, in an order that every rank finds by itself. */
int hf_make_layout(const struct model_config *config, const struct hf_name *table,
                   struct safetensors_layout *layout, struct error *err);

/* A file with its header and the length of its data; existing ones are opened without 'create'. */
int hf_open_file(const char *path, const struct safetensors_layout *layout, int create,
                 struct error *err);

/* Write this rank's part of one parameter, in the layout's type, to its place. */
int hf_save_one(int fd, const struct hf_name *table, const struct safetensors_layout *layout,
                const struct parameter *p, const char *weights, struct error *err);
int hf_write_config(const char *directory, const struct model_config *config, struct error *err);

#endif
