/* The CPUs that Slurm's cgroup leaves to this process, where Slurm limits them that way. */
#ifndef MEGATRON_CGROUP_H
#define MEGATRON_CGROUP_H

#include "cpuset.h"

/* Read them into 'cpus'; 'root' stands before /proc and /sys ("" but in tests). Returns 1, or 0
 * where CPUs are not limited by a cgroup of a step. */
int cgroup_step_cpus(const char *root, struct cpuset *cpus);

/* Move this process (root's) out of its job's cgroups, to where Slurm has its own, so that they can
 * be removed when the step is over. What cannot be left is stayed in. */
void cgroup_leave_job(const char *root);

#endif
