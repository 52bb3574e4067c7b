/* SPDX-License-Identifier: Apache-2.0 */
/* The PMIx socket of a slurmstepd that was killed. It stays on its node, and Slurm cannot launch a
 * step with the same number there, which a job gets when it is requeued. */
#ifndef MEGATRON_OLD_SOCKET_H
#define MEGATRON_OLD_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The job whose number mpi/pmix uses in the socket's name: 'job', or the first component of its
 * heterogeneous job, which is the step's SLURM_JOB_ID ('text', "" if unset). Users can set that
 * variable, so a number that cannot belong to the same heterogeneous job is ignored. */
uint32_t old_socket_job(uint32_t job, const char *text);

/* In the slurmstepd of step 'step' of job 'job', before it has its PMIx socket: remove such a
 * socket of that step, named after job 'leader'. True if there was one; its path is in 'path'. A
 * socket on which a process listens is kept. */
bool old_socket_remove(uint32_t job, uint32_t leader, uint32_t step, char *path, size_t size);

#endif
