/* Calls that may hang, such as those to Slurm's controller from a forked task, in which another
 * thread's lock may be held for ever. */
#ifndef MEGATRON_DEADLINE_H
#define MEGATRON_DEADLINE_H

/* Run call(argument) in a child process and wait up to 'seconds' for it. Results must go through
 * memory that is shared. Returns what the call returned (0 to 127), or -1 when it did not come
 * back. */
int with_deadline(int (*call)(void *), void *argument, int seconds);

#endif
