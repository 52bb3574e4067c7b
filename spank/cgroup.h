/* The CPUs that a cgroup of Slurm allows this process, and how to leave that cgroup. */
#ifndef MEGATRON_CGROUP_H
#define MEGATRON_CGROUP_H

#include "cpuset.h"

/* Read them into 'cpus'; 'root' is the directory of /proc and /sys ("" except in tests). Returns 1,
 * or 0 if no cgroup of a step limits the CPUs. */
int cgroup_step_cpus(const char *root, struct cpuset *cpus);

/* Move this process (root's) out of its job's cgroups, to those of Slurm itself, so that they can
 * be removed when the step is over. What cannot be left is stayed in. */
void cgroup_leave_job(const char *root);

#endif
