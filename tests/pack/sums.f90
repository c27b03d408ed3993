program sums
    use mpi
    implicit none
    integer :: rank, ranks, total, length, error
    character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: library
    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    call MPI_Allreduce(rank + 1, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
    call MPI_Get_library_version(library, length, error)
    if (rank == 0) print '(a,i0,a,i0)', 'fortran ', ranks, ' ranks, sum ', total
    if (rank == 0) print '(a)', library(1:index(library, char(10)) - 1)
    call MPI_Finalize(error)
end program sums
