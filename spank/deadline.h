/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that may hang, such as calls to Slurm's controller from a forked task, in which another
 * thread's lock may be held forever. */
#ifndef MEGATRON_DEADLINE_H
#define MEGATRON_DEADLINE_H

/* Run call(argument) in a child process and wait up to 'seconds' for it. Results must be passed
 * through shared memory. Returns the call's return value (0 to 127), or -1 if it timed out. */
int with_deadline(int (*call)(void *), void *argument, int seconds);

#endif
