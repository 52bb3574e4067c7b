/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_star.h"
#include "guard.h"

#include <mpi.h>
#include <string.h>
#include <unistd.h>

/* Connections succeed at once or are not allowed. The ranks must agree on that before the deadline.
 */
#define RENDEZVOUS_SECONDS 30.0

static struct star *rendezvous(const struct comm_options *options, struct error *err)
{
    struct rendezvous_address address;
    struct star *star = NULL;
    double half = options->deadline / 2,
           deadline = half < RENDEZVOUS_SECONDS ? half : RENDEZVOUS_SECONDS;
    int listener = -1;

    memset(&address, 0, sizeof(address));
    if (options->rank == 0)
        listener = rendezvous_listen(0, options->master, &address, err);
    MPI_Bcast(&address, sizeof(address), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (options->rank != 0 && address.port == 0)
        error_set(err, "rank 0 cannot listen for connections (its output says why)");
    else if (options->rank != 0 || listener >= 0)
        star = star_join(options->rank, options->size, &address, listener, deadline, err);
    if (listener >= 0)
        close(listener);
    return star;
}

int mpi_star(const struct comm_options *options, struct star **star, struct error *warning,
             struct error *err)
{
    struct guard *guard = guard_begin(
        options->deadline, err,
        "rank %d of %d: not all ranks arrived within %.0f s; see the output of the other ranks",
        options->rank, options->size, options->deadline);
    struct error why = {.text = ""};
    int own, first = 0; /* this rank if it did not connect, and the lowest such rank; else the
                           size */

    if (!guard)
        return -1;
    *star = rendezvous(options, &why);
    own = *star ? options->size : options->rank;
    MPI_Allreduce(&own, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    guard_end(guard);
    if (first == options->rank)
        error_set(
            warning,
            "%.800s; a lost rank is noticed only after the timeout of a collective; allow TCP "
            "connections between the nodes (check their firewall)",
            why.text);
    if (first < options->size) {
        star_destroy(*star);
        *star = NULL;
    }
    return 0;
}
