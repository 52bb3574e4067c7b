/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher.h"

#include "config.h"

#include <stdlib.h>
#include <string.h>

extern char **environ;

int launcher_missing(void)
{
    /* Every launcher of MPI sets variables with one of these prefixes; so does an mpirun within a
     * job. Settings of Open MPI do not count: Slurm since 23.11 sets some for an mpirun. */
    static const char *const servers[] = {"PMI_", "PMIX_", "PMI2_", "PALS_", "OMPI_", "PRTE_"};

    if (!getenv("SLURM_PROCID"))
        return 0;
    for (char **variable = environ; *variable; variable++)
        for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++)
            if (strncmp(*variable, servers[i], strlen(servers[i])) == 0 &&
                strncmp(*variable, "OMPI_MCA_", 9) != 0 && strncmp(*variable, "PRTE_MCA_", 9) != 0)
                return 0;
    return 1;
}

#ifdef HAVE_PMIX
#include <dlfcn.h>
#include <pmix.h>
#include <stdio.h>

typedef pmix_status_t fence_function(const pmix_proc_t procs[], size_t count,
                                     const pmix_info_t info[], size_t info_count);
typedef pmix_status_t abort_function(int status, const char message[], pmix_proc_t procs[],
                                     size_t count);

/* Look up a function of the library copy that MPI has loaded and started, or NULL. It stays loaded.
 */
static void *find(const char *name)
{
    void *library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_NOLOAD);

    return library ? dlsym(library, name) : NULL;
}

int launcher_barrier(struct error *err)
{
    fence_function *fence = (fence_function *)find("PMIx_Fence");
    pmix_info_t info;
    pmix_status_t rc = PMIX_SUCCESS;

    memset(&info, 0, sizeof(info));
    snprintf(info.key, sizeof(info.key), "%s", PMIX_COLLECT_DATA);
    info.value.type = PMIX_BOOL;
    info.value.data.flag = 1;
    if (fence)
        rc = fence(NULL, 0, &info, 1);
    if (rc != PMIX_SUCCESS)
        return error_set(err,
                         "the PMIx fence after MPI_Init failed: PMIx error %d; see the output of "
                         "the other ranks, and the log of slurmd on their nodes",
                         (int)rc);
    return 0;
}

int launcher_can_abort(void)
{
    return find("PMIx_Abort") != NULL;
}

int launcher_abort(void)
{
    abort_function *end = (abort_function *)find("PMIx_Abort");

    return end && end(1, "", NULL, 0) == PMIX_SUCCESS ? 0 : -1;
}
#else
int launcher_barrier(struct error *err)
{
    (void)err;
    return 0;
}

int launcher_can_abort(void)
{
    return 0;
}

int launcher_abort(void)
{
    return -1;
}
#endif
