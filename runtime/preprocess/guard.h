/* A rank must not outlive the step it belongs to. */
#ifndef MEGATRON_PREPROCESS_GUARD_H
#define MEGATRON_PREPROCESS_GUARD_H

/* Find slurmstepd among the processes above this one and end this process when it ends, however
 * many shells and wrappers lie between. (When a slurmstepd is killed, Slurm lets its tasks live on;
 * PR_SET_PDEATHSIG sees only the direct parent.) Does nothing where there is none to be seen. */
void guard_start(void);

#endif
