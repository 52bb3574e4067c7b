/* SPDX-License-Identifier: Apache-2.0 */
/* The CPUs that Slurm's cgroup allows this process, and how to leave that cgroup. */
#ifndef MEGATRON_CGROUP_H
#define MEGATRON_CGROUP_H

#include "lib/cpuset.h"

/* Read them into 'cpus'; 'root' is the directory of /proc and /sys ("" except in tests). Returns 1,
 * or 0 if no step cgroup limits the CPUs. */
int cgroup_step_cpus(const char *root, struct cpuset *cpus);

/* Move this process (which runs as root) out of its job's cgroups and into Slurm's own, so that the
 * job's cgroups can be removed when the step is over. Cgroups that it cannot leave are ignored. */
void cgroup_leave_job(const char *root);

#endif
