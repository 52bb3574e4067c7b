/* SPDX-License-Identifier: Apache-2.0 */
/* The contract between the plugin and the runtime: every MEGATRON_* variable, its meaning, its
 * form.
 *
 * The plugin sets these for the tasks of a step that srun launches; `megatron` reads them.
 * Command-line options override MEGATRON_* variables, which override SLURM_*, OMPI_* and RANK-style
 * ones, which override defaults. Facts (ranks, counts, GPUs, CPUs) are always set; choices (layout,
 * model, rendezvous, NICs) do not override a variable that the user exported. Numbers are decimal,
 * lists are separated by commas. megatron-contract(7) is the same for users; a test compares them.
 */
#ifndef MEGATRON_CONTRACT_H
#define MEGATRON_CONTRACT_H

#include <stddef.h>

#define CONTRACT_VERSION 1

/* Marks of a job and of a step that asked for the plugin. sbatch and salloc set the first, srun
 * replaces it by the second, and the plugin on the node removes that one. So a task of srun that
 * finds one of them runs without the plugin, which srun or its node did not load. */
#define CONTRACT_MARK_JOB    "SLURM_SPANK_MEGATRON_JOB"
#define CONTRACT_MARK_CLIENT "SLURM_SPANK_MEGATRON_CLIENT"

/* X(suffix, form, meaning): the variable is MEGATRON_<suffix>. */
#define CONTRACT_VARIABLES(X)                                                             \
    X(CONTRACT, "N",                                                                      \
      "version of this contract; megatron refuses a version that it does not support")    \
    X(RANK, "N", "global rank, across all components of a het job")                       \
    X(WORLD_SIZE, "N", "number of ranks")                                                 \
    X(LOCAL_RANK, "N", "rank within this node")                                           \
    X(LOCAL_SIZE, "N", "number of ranks on this node")                                    \
    X(NODE_RANK, "N", "index of this node, across all components of a het job")           \
    X(NODES, "N", "number of nodes")                                                      \
    X(TP, "N", "tensor-parallel size")                                                    \
    X(PP, "N", "pipeline-parallel size")                                                  \
    X(CP, "N", "context-parallel size")                                                   \
    X(DP, "N", "data-parallel size: WORLD_SIZE / (TP * PP * CP)")                         \
    X(MODEL, "NAME", "model preset; command-line options override its values")            \
    X(MASTER_ADDR, "HOST", "address of the node that runs rank 0")                        \
    X(MASTER_PORT, "N", "rendezvous port on that node")                                   \
    X(SECRET, "TEXT",                                                                     \
      "random text by which the ranks of a step recognize each other; keep it private")   \
    X(GPU, "LIST", "GPUs of this task: CUDA device numbers in PCI_BUS_ID order")          \
    X(GPU_PCI, "LIST",                                                                    \
      "PCI addresses of these GPUs, DOMAIN:BUS:DEVICE.FUNCTION, in the same order")       \
    X(NICS, "LIST",                                                                       \
      "NICs of this task: names of RDMA devices, or PCI addresses if they have no name")  \
    X(CPUS, "LIST", "CPUs of this task: OS numbers, in ranges such as 0-11,96-107")       \
    X(NUMA, "LIST", "NUMA nodes of this task: OS numbers")                                \
    X(JOB_END, "SECONDS",                                                                 \
      "end of the job's time limit, in seconds since 1970; not set if there is no limit") \
    X(RESTARTS, "N", "number of times that Slurm has requeued this job")                  \
    X(EXPORTED, "LIST", "names of the other variables that the plugin set for this task")

enum contract_variable {
#define X(suffix, form, meaning) CONTRACT_##suffix,
    CONTRACT_VARIABLES(X)
#undef X
        CONTRACT_COUNT
};

/* The name of a variable, such as "MEGATRON_TP". A static string, never NULL. */
const char *contract_name(enum contract_variable variable);

#endif
