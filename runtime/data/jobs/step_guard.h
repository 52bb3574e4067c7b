/* SPDX-License-Identifier: Apache-2.0 */
/* Ends a rank when its job step ends. */
#ifndef MEGATRON_STEP_GUARD_H
#define MEGATRON_STEP_GUARD_H

/* Find slurmstepd among the ancestors of this process, behind any number of shells and wrappers,
 * and end this process when slurmstepd ends. (If a slurmstepd is killed, Slurm lets its tasks run
 * on; PR_SET_PDEATHSIG covers only the direct parent.) Does nothing if there is no slurmstepd. */
void step_guard_start(void);

#endif
