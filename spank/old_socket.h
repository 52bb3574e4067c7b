/* SPDX-License-Identifier: Apache-2.0 */
/* The PMIx socket of a slurmstepd that was killed. It stays on its node, and Slurm cannot launch a
 * step with the same number there, which a job gets when it is requeued. */
#ifndef MEGATRON_OLD_SOCKET_H
#define MEGATRON_OLD_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the slurmstepd of a step, before it has its PMIx socket: remove such a socket of that step.
 * True if there was one; its path is in 'path'. A socket on which a process listens is kept. */
bool old_socket_remove(uint32_t job, uint32_t step, char *path, size_t size);

#endif
