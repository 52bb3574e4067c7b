/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line of srun, sbatch or salloc requests. Before a job is allocated, SPANK does
 * not tell a client's plugin the number of tasks, nodes or GPUs, but a job that cannot work should
 * be rejected before it waits in a queue. So this parser reads the words, the variables and the
 * script's #SBATCH lines itself. What it cannot parse stays unknown; Slurm will report it. It does
 * not depend on Slurm, opens no files and trusts no input. */
#ifndef MEGATRON_REQUEST_H
#define MEGATRON_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum program { PROGRAM_SRUN, PROGRAM_SBATCH, PROGRAM_SALLOC };

enum { REQUEST_COMPONENTS = 32, REQUEST_UNKNOWN = -1 };

/* Counts for one component of a (het) job; REQUEST_UNKNOWN if not given. */
struct request_component {
    int64_t tasks, nodes, tasks_per_node;
    int64_t gpus, gpus_per_node, gpus_per_task, tasks_per_gpu;
};

/* Binding options that the user gave, which placement does not change. */
enum override {
    OVERRIDE_CPU_BIND = 1, /* --cpu-bind */
    OVERRIDE_GPU_BIND = 2, /* --gpu-bind, --gpus-per-task, --tres-bind, --tres-per-task */
    OVERRIDE_MEM_BIND = 4,
    OVERRIDE_HINT = 8,
};

struct request {
    enum program program;
    struct request_component components[REQUEST_COMPONENTS];
    size_t count;       /* of components, at least 1 */
    size_t current;     /* the one that words are read for */
    unsigned overrides; /* enum override */
    bool wrapped;       /* sbatch --wrap: there is no script to read */
    bool interactive;   /* srun --interactive: salloc's own step */
    char model[64];     /* what one of our job scripts gets as --megatron-model; empty: nothing */
    unsigned own;       /* options of ours (1 << enum option_id) that were read */
    int last;           /* enum option_id of the option that was read last; -1: not one of ours */
    unsigned cut;       /* options of ours (1 << enum option_id) whose value an unquoted # of the
                           script cut short */
};

void request_init(struct request *request, enum program program);

/* Read the words of a command line after the program's name, up to 'limit' (where getopt stopped;
 * argc if unknown). Returns the position of the first word that is not an option: the command or
 * the script. */
int request_arguments(struct request *request, int argc, char *const *argv, int limit);

/* Read the variables that 'program' treats as options; a NULL-terminated list of "NAME=VALUE". */
void request_environment(struct request *request, char *const *variables);

/* Read the #SBATCH lines of a script, up to its first command, as sbatch does. */
void request_script(struct request *request, const char *text, size_t size);

/* Read the words after a job script's name if its 'text' is one of ours (it sources recipe.bash):
 * `megatron train` gets them. */
void request_script_words(struct request *request, const char *text, int count, char *const *words);

/* Totals over all components; REQUEST_UNKNOWN if they cannot be determined. */
int64_t request_tasks(const struct request *request);
int64_t request_nodes(const struct request *request);

/* The numbers of tasks and of GPUs on each node of a component; REQUEST_UNKNOWN if they cannot be
 * determined. */
int64_t request_component_tasks_per_node(const struct request *request, size_t component);
int64_t request_component_gpus_per_node(const struct request *request, size_t component);

/* The same for a node of any component; REQUEST_UNKNOWN also if components differ. */
int64_t request_tasks_per_node(const struct request *request);
int64_t request_gpus_per_node(const struct request *request);

/* The number of GPUs in a list of generic resources: "gpu:a100:4,shard:2" is 4. REQUEST_UNKNOWN if
 * it contains no GPUs or cannot be parsed. */
int64_t request_gres_gpus(const char *text);

/* Shared by the files that parse a request. */

/* Start the next component of a het job; the words that follow belong to it. */
void request_add_component(struct request *request);

/* Read options from 'position' up to 'limit' or the first word that is not an option. Returns the
 * position where it stopped. */
int request_options(struct request *request, int position, int limit, char *const *argv);

#endif
