/* Preloaded into an MPI program, this changes one byte of what is received, as a broken transport
 * would: the last byte of every message of exactly STACKPROOF_WRONGBYTE_SIZE bytes that arrives by
 * MPI_Recv or a collective (there in the block of rank 0), and of the last MPI_Irecv of a window.
 * Other sizes, and so the program's own housekeeping, stay as they are.
 */
#define _GNU_SOURCE 1

#include <mpi.h>
#include <stdlib.h>

static char *window_data;
static const MPI_Request *window_request;

static int is_chosen(int count, MPI_Datatype type)
{
    const char *text = getenv("STACKPROOF_WRONGBYTE_SIZE");
    int size = 0;
    PMPI_Type_size(type, &size);
    return text != NULL && strtoll(text, NULL, 10) == (long long)count * size && count > 0;
}

static void damage(void *data, int count, MPI_Datatype type)
{
    int size = 0;
    PMPI_Type_size(type, &size);
    if (is_chosen(count, type)) {
        ((char *)data)[(size_t)count * (size_t)size - 1] ^= 0x10;
    }
}

int MPI_Recv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    int code = PMPI_Recv(data, count, type, from, tag, comm, status);
    damage(data, count, type);
    return code;
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    if (is_chosen(count, type)) {
        window_data = (char *)data + count - 1;
        window_request = request;
    }
    return PMPI_Irecv(data, count, type, from, tag, comm, request);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    int code = PMPI_Waitall(count, requests, statuses);
    if (window_data != NULL && window_request >= requests && window_request < requests + count) {
        *window_data ^= 0x10;
        window_data = NULL;
    }
    return code;
}

int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    int rank = 0;
    int code = PMPI_Bcast(data, count, type, root, comm);
    PMPI_Comm_rank(comm, &rank);
    if (rank != root) {
        damage(data, count, type);
    }
    return code;
}

int MPI_Alltoall(const void *send, int send_count, MPI_Datatype send_type, void *data, int count,
                 MPI_Datatype type, MPI_Comm comm)
{
    int code = PMPI_Alltoall(send, send_count, send_type, data, count, type, comm);
    damage(data, count, type);
    return code;
}

int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *data, int count,
                  MPI_Datatype type, MPI_Comm comm)
{
    int code = PMPI_Allgather(send, send_count, send_type, data, count, type, comm);
    damage(data, count, type);
    return code;
}

int MPI_Allreduce(const void *send, void *data, int count, MPI_Datatype type, MPI_Op operation,
                  MPI_Comm comm)
{
    int code = PMPI_Allreduce(send, data, count, type, operation, comm);
    damage(data, count, type);
    return code;
}
