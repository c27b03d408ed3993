program main
 use mpi_f08
 integer :: r, n, s, a(8)
 call MPI_Init()
 call MPI_Comm_rank(MPI_COMM_WORLD, r)
 call MPI_Comm_size(MPI_COMM_WORLD, n)
 s = r + 1
 call MPI_Allreduce(MPI_IN_PLACE, s, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
 a = r
 call MPI_Bcast(a(1:8:2), 4, MPI_INTEGER, 0, MPI_COMM_WORLD)
 if (r == 0) print '(A,I0,A)', 'RESULT size=', n, ' ok=1'
 call MPI_Finalize()
end
