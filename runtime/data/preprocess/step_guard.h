/* SPDX-License-Identifier: Apache-2.0 */
/* A rank must not outlive its job step. */
#ifndef MEGATRON_STEP_GUARD_H
#define MEGATRON_STEP_GUARD_H

/* Find slurmstepd among the ancestors of this process and end this process when it ends, however
 * many shells and wrappers are in between. (If a slurmstepd is killed, Slurm lets its tasks run on;
 * PR_SET_PDEATHSIG covers only the direct parent.) Does nothing if there is no slurmstepd. */
void step_guard_start(void);

#endif
