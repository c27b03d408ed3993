/* Preloaded into an MPI program, this makes its MPI one that takes buffers of the GPU of fakegpu.c:
 * it says so when it is asked, and hands the MPI the places where such buffers' bytes are. It
 * changes the last byte of what MPI_Recv brings in messages of STACKPROOF_GPUAWARE_WRONG bytes.
 */
#define _GNU_SOURCE 1

#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static void *bytes(const void *at)
{
    void *(*find)(const void *) = NULL;
    void *found = dlsym(RTLD_DEFAULT, "fake_gpu_bytes");
    memcpy(&find, &found, sizeof found);
    return find == NULL ? (void *)(size_t)at : find(at);
}

int MPIX_Query_cuda_support(void)
{
    return 1;
}

int MPIX_Query_rocm_support(void)
{
    return 1;
}

int MPIX_Query_hip_support(void)
{
    return 1;
}

int MPI_Send(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    return PMPI_Send(bytes(data), count, type, to, tag, comm);
}

int MPI_Recv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    const char *wrong = getenv("STACKPROOF_GPUAWARE_WRONG");
    int code = PMPI_Recv(bytes(data), count, type, from, tag, comm, status);
    if (wrong != NULL && count > 0 && count == atoi(wrong)) {
        ((char *)bytes(data))[count - 1] ^= 0x10;
    }
    return code;
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    return PMPI_Isend(bytes(data), count, type, to, tag, comm, request);
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    return PMPI_Irecv(bytes(data), count, type, from, tag, comm, request);
}

int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
    return PMPI_Allreduce(bytes(send), bytes(recv), count, type, op, comm);
}

int MPI_Alltoall(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                 int recv_count, MPI_Datatype recv_type, MPI_Comm comm)
{
    return PMPI_Alltoall(bytes(send), send_count, send_type, bytes(recv), recv_count, recv_type,
                         comm);
}

int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *recv,
                  int recv_count, MPI_Datatype recv_type, MPI_Comm comm)
{
    return PMPI_Allgather(bytes(send), send_count, send_type, bytes(recv), recv_count, recv_type,
                          comm);
}

int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    return PMPI_Bcast(bytes(data), count, type, root, comm);
}
