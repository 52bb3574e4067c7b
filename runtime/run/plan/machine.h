/* SPDX-License-Identifier: Apache-2.0 */
/* What a kind of node can do: its GPUs, links, network and price, and how much of the data sheet's
 * rates training software reaches on it. Read from JSON files, one per GPU generation, that
 * administrators can add to and `megatron plan --calibrate` writes.
 *
 *     struct machines *machines = machines_open(NULL, err);
 *     const struct machine *machine = NULL;
 *
 *     if (machines)
 *         machine = machines_find(machines, "p5.48xlarge", err);
 *     if (machine)
 *         printf("%d x %s\n", machine->gpus, machine->gpu.name);
 *     machines_destroy(machines);
 */
#ifndef MEGATRON_MACHINE_H
#define MEGATRON_MACHINE_H

#include <stddef.h>
#include "lib/error.h"

enum machine_precision { MACHINE_BF16, MACHINE_FP8, MACHINE_FP4, MACHINE_PRECISIONS };

/* Constants of the time model that belong to a GPU generation. Rates are shares of the data
 * sheet's, times are seconds. */
struct machine_rates {
    double product;    /* large matrix products in 128 x 256 tiles */
    double small_tile; /* 128 x 128 tiles, relative to the former */
    double half_depth; /* depth k of a product at which half of its time is start-up */
    double launch;     /* of a product, besides */
    double flash;      /* fused attention */
    double unfused;    /* the products of attention with scores in memory, relative to 'product' */
    double head_exponent; /* how those fall with head sizes below 128 ... */
    double unaligned;     /* ... and their share left if the head size is not a multiple of 8 */
    double unaligned_vocabulary; /* share left of 'product' in the output layer if the vocabulary is
                                    not a multiple of 8 and was not padded */
    double fp8, fp4;             /* large products in these precisions, relative to 'product' */
    double score_bytes; /* memory traffic per score, forward, of attention with scores in memory */
    double hidden_traffic; /* tensors of one layer, forward, that are read or written besides
                              products: of hidden size ... */
    double ffn_traffic;    /* ... and of feed-forward size */
    double logit_bytes;    /* memory traffic per logit, forward and backward */
    double cast_bytes;   /* with fp8, per element of what a linear layer gets, in both directions */
    double layer;        /* fixed time of a layer, forward */
    double host;         /* time that the host takes to launch a layer, forward: a small layer takes
                            that long ... */
    double host_softmax; /* ... the same, added if the softmax is not fused ... */
    double host_collective; /* ... and to launch one of its collectives ... */
    double host_late;       /* ... with the wait for the latest rank, per doubling of the ranks */
    double nvlink;          /* all-reduce bus bandwidth within a node */
    double network;         /* bandwidth of a NIC */
    double network_group;   /* all-reduce bus bandwidth of one group over several nodes, in NICs */
    double collective;      /* of a collective, besides: launch, and waits between streams */
    double latency;         /* of a collective, per doubling of its ranks */
    double hop;             /* of a message between pipeline stages */
    double tensor_exposed, context_exposed, pipeline_exposed, data_exposed; /* shares of
                              communication that computation does not hide */
    double data_growth;      /* of gradient reduction per doubling of its ranks */
    double gradient_bytes;   /* sent per parameter and direction */
    double accumulate_bytes; /* memory traffic per parameter and micro-batch */
    double optimizer_bytes;  /* memory traffic per parameter and step */
    double fixed;            /* of a step */
    double hbm;              /* share of the memory bandwidth that kernels reach */
    double classic; /* 1: software without fused attention, sequence parallelism and overlap:
                       Megatron-LM and Megatron-DeepSpeed until 2022 */
};

/* Memory of a rank by the published formulas, for software that does not plan its arenas. */
struct machine_memory {
    double state_bytes;   /* per parameter: weights, gradients and what every replica keeps */
    double bf16_bytes;    /* of those, added with bf16: fp32 accumulation of gradients */
    double sharded_bytes; /* per parameter, divided over the data-parallel ranks */
    double activations;   /* real size relative to the formulas': fragments, work space */
    double context_bytes; /* CUDA context, NCCL, work space */
};

/* When `megatron preflight` warns about a node and when it fails it. Shares are of the job's
 * median, which a value is below; 0 leaves a check out. */
struct machine_limits {
    double core_warn, core_fail;     /* share: speed of the slowest core */
    double memory_warn, memory_fail; /* share: memory bandwidth of a core */
    double layer_warn, layer_fail;   /* share: speed of a layer's step */
    double held_warn, held_fail;     /* share of the time that a rank is held back */
    double link_warn, link_fail;     /* share: bandwidth between two nodes */
    double loss_warn, loss_fail;     /* share of retransmitted TCP segments */
    double skew_warn, skew_fail;     /* seconds between wall clocks */
    double disk_bytes;               /* free space that a node needs */
    double disk_bandwidth;           /* bytes per second of a write to the local disk */
    double host_bandwidth;           /* bytes per second between a GPU and the host */
    double all_reduce;               /* bytes per second, bus bandwidth within a node */
    double pair_all_reduce;          /* the same over two nodes */
    double open_files;
    double locked_memory; /* bytes that a process must be able to lock if there are RDMA NICs */
};

/* Measured training steps of one GPU: what a layer and the output layer of such a model take. The
 * time model is scaled to the nearest ones. */
struct machine_step {
    double hidden, ffn, heads, groups, gated, sequence, micro_batch, vocabulary;
    double layer, head; /* seconds per micro-batch, forward and backward */
};

enum { MACHINE_STEPS = 16 };

struct machine_gpu {
    char name[32];
    int processors;                        /* streaming multiprocessors */
    double flops[MACHINE_PRECISIONS];      /* dense, per second; 0: not supported */
    double memory_bytes, memory_bandwidth; /* bytes, bytes per second */
    struct machine_rates rates;            /* of Megatron-core and NeMo, unless classic */
    struct machine_rates own;              /* of this program: the same if nothing else is known */
    struct machine_step steps[MACHINE_STEPS]; /* of this program */
    int step_count;
    double time_error; /* of the model, as a share: the range that is printed */
};

struct machine {
    char name[48];
    char *aliases[8];
    struct machine_gpu gpu;
    int gpus;                  /* of a node; 0: a node without GPUs, for preflight only */
    double nics;               /* RDMA NICs of a node; 0: unknown */
    double nvlink;             /* bytes per second and direction of one GPU ... */
    double nvlink_pair;        /* ... and the share of it between two GPUs; 1: with a switch */
    double network;            /* bytes per second and direction of one GPU's share of the NICs */
    double efficiency;         /* of products on this cluster, relative to rates.product ... */
    double nvlink_efficiency;  /* ... of collectives within a node, relative to rates.nvlink ... */
    double collective_latency; /* ... and their latency, relative to rates.latency */
    double synchronous;        /* 1: the host waits for every kernel (CUDA_LAUNCH_BLOCKING=1) */
    double price;              /* dollars per node and hour; 0: unknown */
    double fault_hours;        /* GPU hours between faults that stop a job */
    double save_bandwidth;     /* bytes per second that a node writes of a checkpoint */
    double context_bytes;      /* of this program besides its arenas: CUDA, NCCL, work space */
    struct machine_memory memory;
    struct machine_limits limits;
};

struct machines;

/* All machines of the JSON files in 'directory'; NULL: in $MEGATRON_MACHINES, or those installed
 * with the program. A file that is wrong is left out with a warning if others are left. Caller must
 * destroy. */
struct machines *machines_open(const char *directory, struct error *err);
void machines_destroy(struct machines *machines);

size_t machines_count(const struct machines *machines);
const struct machine *machines_at(const struct machines *machines, size_t index);

/* The machine called 'name' (letter case does not matter), or NULL with the nearest names. Nodes
 * without GPUs are not counted and not found, except by machines_find_any. */
const struct machine *machines_find(const struct machines *machines, const char *name,
                                    struct error *err);
const struct machine *machines_find_any(const struct machines *machines, const char *name,
                                        struct error *err);

/* The first machine with a GPU of this name, as machine files or nvidia-smi have it: "A100-40",
 * "NVIDIA A100-SXM4-40GB". A memory in the name counts: 'any_memory' takes another one if no
 * machine has as much. NULL if there is none. */
const struct machine *machines_find_gpu(const struct machines *machines, const char *name,
                                        int any_memory, struct error *err);

/* A machine of the usual rates and no name, for what is measured. */
struct machine machine_usual(void);

/* The usual limits of a node with or without GPUs. */
struct machine_limits machine_usual_limits(int gpus);

/* Write a machine file with this one machine: complete, or none. */
int machine_write(const struct machine *machine, const char *path, struct error *err);

#endif
