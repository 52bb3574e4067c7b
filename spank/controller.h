/* Questions to Slurm's controller, by calls that are public in every release from 22.05 on. All of
 * them cost a message to slurmctld: ask once per step if possible. As the user only. */
#ifndef MEGATRON_CONTROLLER_H
#define MEGATRON_CONTROLLER_H

#include <stddef.h>
#include <stdint.h>

struct controller_node {
    char name[256];     /* NodeName */
    char hostname[256]; /* NodeHostname */
    char address[256];  /* NodeAddr */
};

/* The node of task 0 of a step. 'component' is NO_VAL, but for het steps within a plain job.
 * Returns 0 or -1. */
int controller_first_node(uint32_t job, uint32_t step, uint32_t component,
                          struct controller_node *node);

/* The name and address of the node called 'name'; unknown fields get the name itself. */
void controller_node(const char *name, struct controller_node *node);

/* When the job's time ends, in seconds since 1970; 0 if it never does or is unknown.
 */
int64_t controller_job_end(uint32_t job);

/* When the job began, likewise, or of a het job the first component; 0 if unknown.
 */
int64_t controller_job_start(uint32_t job);

/* Send a signal to a step on all its nodes, now. Returns 0, 1 if the step is over, or -1. */
int controller_signal_step(uint32_t job, uint32_t step, uint16_t signal);

#endif
