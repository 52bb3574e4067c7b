/* SPDX-License-Identifier: Apache-2.0 */
/* Queries to Slurm's controller through calls that are public in every release since 22.05. Each
 * one costs a message to slurmctld: ask once per step if possible. Only call these as the user. */
#ifndef MEGATRON_CONTROLLER_H
#define MEGATRON_CONTROLLER_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

struct controller_node {
    char name[256];     /* NodeName */
    char hostname[256]; /* NodeHostname */
    char address[256];  /* NodeAddr */
};

/* Find the node of task 0 of a step. 'component' is NO_VAL except for het steps within a plain job.
 * Returns 0 or -1. */
int controller_first_node(uint32_t job, uint32_t step, uint32_t component,
                          struct controller_node *node);

/* The list of the step's nodes. Returns 0 or -1. */
int controller_step_hosts(uint32_t job, uint32_t step, char *hosts, size_t size);

/* Find the name and address of the node called 'name'; unknown fields get the name itself. */
void controller_node(const char *name, struct controller_node *node);

/* The job's end time in seconds since 1970; 0 if it has no limit or is unknown. */
int64_t controller_job_end(uint32_t job);

/* The job's start time in seconds since 1970 (of a het job, that of the first component); 0 if
 * unknown. */
int64_t controller_job_start(uint32_t job);

/* Release the allocation of a job, as one that failed. Returns 0 or -1. */
int controller_fail_job(uint32_t job);

/* Asks the tasks of a step that have not reached their program to exit. Between the fork and the
 * plugin's handler a task has the default actions, whatever a plugin sets before (slurmstepd resets
 * them): with proctrack/cgroup, SIGTERM would terminate it there, and srun would report a signal
 * instead of the failure. SIGURG has no effect there, nor on programs that run already. */
enum { CONTROLLER_END_START = SIGURG };

/* Send a signal to a step on all its nodes, now. Returns 0, 1 if the step is over, or -1. */
int controller_signal_step(uint32_t job, uint32_t step, uint16_t signal);

#endif
