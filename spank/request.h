/* What a command line of srun, sbatch or salloc asks for, from its own words: SPANK tells
 * a client's plugin neither the number of tasks nor of nodes or GPUs before a job is allocated, but
 * a job that cannot work should be refused before it waits in a queue.
 *
 * Reads words, variables and the #SBATCH lines of a script. What cannot be read stays unknown; it
 * is Slurm's to complain about it. No Slurm in here, nothing is opened, nothing is trusted. */
#ifndef MEGATRON_REQUEST_H
#define MEGATRON_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum program { PROGRAM_SRUN, PROGRAM_SBATCH, PROGRAM_SALLOC };

enum { REQUEST_COMPONENTS = 32, REQUEST_UNKNOWN = -1 };

/* Numbers of one component of a (het) job; REQUEST_UNKNOWN if not given. */
struct request_component {
    int64_t tasks, nodes, tasks_per_node;
    int64_t gpus, gpus_per_node, gpus_per_task, tasks_per_gpu;
};

/* Binding options that the user gave, which placement does not change. */
enum wish {
    WISH_CPU_BIND = 1, /* --cpu-bind */
    WISH_GPU_BIND = 2, /* --gpu-bind, --gpus-per-task, --tres-bind, --tres-per-task */
    WISH_MEM_BIND = 4,
    WISH_HINT = 8,
};

struct request {
    enum program program;
    struct request_component components[REQUEST_COMPONENTS];
    size_t count;     /* of components, at least 1 */
    size_t current;   /* the one that words are read for */
    unsigned wishes;  /* enum wish */
    bool wrapped;     /* sbatch --wrap: there is no script to read */
    bool interactive; /* srun --interactive: salloc's own step */
};

void request_init(struct request *request, enum program program);

/* Read the words of a command line after the program's name, except those at 'limit' and above
 * (where getopt stopped; argc if that is not known). Returns the position of the first word that is
 * no option: the command, or the script. */
int request_arguments(struct request *request, int argc, char *const *argv, int limit);

/* Read the variables that 'program' takes for options, "NAME=VALUE" each, up to NULL. */
void request_environment(struct request *request, char *const *variables);

/* Read the #SBATCH lines of a script, up to its first command, as sbatch does. */
void request_script(struct request *request, const char *text, size_t size);

/* Totals over all components: tasks; the most tasks on a node; the fewest GPUs on a node.
 * REQUEST_UNKNOWN if they do not follow from it. */
int64_t request_tasks(const struct request *request);
int64_t request_tasks_per_node(const struct request *request);
int64_t request_gpus_per_node(const struct request *request);
int64_t request_nodes(const struct request *request);

/* The number of GPUs in a list of generic resources: "gpu:a100:4,shard:2" is 4. REQUEST_UNKNOWN if
 * there are none in it or the text cannot be read. */
int64_t request_gres_gpus(const char *text);

#endif
