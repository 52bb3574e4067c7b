/* SPDX-License-Identifier: Apache-2.0 */
#include "comm.h"
#include "log.h"
#include "module.h"
#include "self.h"

#include <stdio.h>
#include <string.h>

struct comm *comm_open(const char *name, const struct comm_options *options, struct error *err)
{
    comm_backend_open_function *open;
    struct comm *comm;
    char file[64];

    if (strcmp(name, "self") == 0)
        return self_comm_open(options, err);
    if (strcmp(name, "mpi") != 0 && strcmp(name, "nccl") != 0) {
        error_set(err, "unknown communication backend %s; use self, mpi or nccl", name);
        return NULL;
    }
    /* MPI's launchers tell the ranks themselves. */
    if (strcmp(name, "nccl") == 0 && options->port == 0) {
        error_set(err,
                  "cannot determine which node runs rank 0 of %d; start the ranks with srun and "
                  "the plugin, or set MASTER_ADDR and MASTER_PORT for all of them (mpirun -x "
                  "MASTER_ADDR=HOST -x MASTER_PORT=29500)",
                  options->size);
        return NULL;
    }
    snprintf(file, sizeof(file), "comm_%s.so", name);
    open = (comm_backend_open_function *)module_symbol(
        file, "comm_backend_open",
        strcmp(name, "mpi") == 0 ? "several ranks on CPUs" : "several GPUs", err);
    if (!open)
        return NULL;
    comm = open(options, err);
    if (comm && comm->abi != COMM_ABI) {
        error_set(err, "%s belongs to another version of megatron; install them together", file);
        comm_close(comm);
        return NULL;
    }
    if (comm && comm->warning.text[0])
        log_warning("%s", comm->warning.text);
    return comm;
}
