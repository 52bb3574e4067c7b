/* Preloaded: the first two numbers of every message change places on their way. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) int MPI_Isend(const void *buffer, int count,
                                                     MPI_Datatype type, int peer, int tag,
                                                     MPI_Comm comm, MPI_Request *request)
{
    int size = 0;
    char *copy, *first;

    PMPI_Type_size(type, &size);
    copy = malloc((size_t)size * ((size_t)count + 1)); /* nobody says when it may go */
    if (!copy || count < 2)
        return PMPI_Isend(buffer, count, type, peer, tag, comm, request);
    memcpy(copy, buffer, (size_t)size * (size_t)count);
    first = copy + (size_t)size * (size_t)count;
    memcpy(first, copy, (size_t)size);
    memcpy(copy, copy + size, (size_t)size);
    memcpy(copy + size, first, (size_t)size);
    return PMPI_Isend(copy, count, type, peer, tag, comm, request);
}
