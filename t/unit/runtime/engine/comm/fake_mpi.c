/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: swaps the first two numbers of every message, and of every gathered part, in transit;
 * with FAKE_END the last two. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* A copy with two numbers swapped, which is never freed. The buffer itself if it has fewer than
 * two. */
static const void *swapped(const void *buffer, int count, MPI_Datatype type)
{
    size_t size, at = 0;
    int bytes = 0;
    char *copy;

    PMPI_Type_size(type, &bytes);
    size = (size_t)bytes;
    copy = count < 2 ? NULL : malloc(size * (size_t)count);
    if (!copy)
        return buffer;
    if (getenv("FAKE_END"))
        at = size * (size_t)(count - 2);
    memcpy(copy, buffer, size * (size_t)count);
    memcpy(copy + at, (const char *)buffer + at + size, size);
    memcpy(copy + at + size, (const char *)buffer + at, size);
    return copy;
}

__attribute__((visibility("default"))) int MPI_Isend(const void *buffer, int count,
                                                     MPI_Datatype type, int peer, int tag,
                                                     MPI_Comm comm, MPI_Request *request)
{
    return PMPI_Isend(swapped(buffer, count, type), count, type, peer, tag, comm, request);
}

/* Other messages between ranks are bytes and are not changed. */
__attribute__((visibility("default"))) int MPI_Iallgather(const void *part, int count,
                                                          MPI_Datatype type, void *all,
                                                          int all_count, MPI_Datatype all_type,
                                                          MPI_Comm comm, MPI_Request *request)
{
    return PMPI_Iallgather(type == MPI_FLOAT ? swapped(part, count, type) : part, count, type, all,
                           all_count, all_type, comm, request);
}
