/* SPDX-License-Identifier: Apache-2.0 */
/* Small data on the host, over the star. */
#include "comm.h"
#include "star.h"

#include <stdio.h>
#include <string.h>

/* The result of an operation of the star; an error of it is a failure of the world. */
static int host_result(struct comm *comm, int rc, struct error *err)
{
    struct error failure = {.code = ERROR_RANK};

    if (rc == 0)
        return 0;
    snprintf(failure.text, sizeof(failure.text), "at step %lld: %.900s", (long long)comm_step(comm),
             err->text);
    comm->fail(comm, &failure);
    return comm_check(comm, err);
}

int comm_host_gather(struct comm *comm, const void *part, void *all, size_t bytes,
                     struct error *err)
{
    if (comm_check(comm, err) < 0)
        return -1;
    if (comm->star)
        return host_result(comm, star_gather(comm->star, part, all, bytes, comm->deadline, err),
                           err);
    if (bytes > 0)
        memmove(all, part, bytes);
    return 0;
}

int comm_host_collect(struct comm *comm, const void *part, void *all, size_t bytes, int root,
                      struct error *err)
{
    if (!comm->star)
        return comm_host_gather(comm, part, all, bytes, err);
    if (comm_check(comm, err) < 0)
        return -1;
    return host_result(comm, star_collect(comm->star, part, all, bytes, root, comm->deadline, err),
                       err);
}

int comm_host_broadcast(struct comm *comm, void *data, size_t bytes, int root, struct error *err)
{
    if (comm_check(comm, err) < 0)
        return -1;
    return comm->star
               ? host_result(
                     comm, star_broadcast(comm->star, data, bytes, root, comm->deadline, err), err)
               : 0;
}

int comm_host_max(struct comm *comm, int64_t *numbers, int count, struct error *err)
{
    if (comm_check(comm, err) < 0)
        return -1;
    return comm->star
               ? host_result(comm, star_max(comm->star, numbers, count, comm->deadline, err), err)
               : 0;
}
