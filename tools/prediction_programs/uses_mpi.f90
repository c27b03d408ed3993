program main
 use mpi
 integer :: r, n, s, e
 call MPI_Init(e)
 call MPI_Comm_rank(MPI_COMM_WORLD, r, e)
 call MPI_Comm_size(MPI_COMM_WORLD, n, e)
 s = r + 1
 call MPI_Allreduce(MPI_IN_PLACE, s, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, e)
 if (r == 0) print '(A,I0,A,I0)', 'RESULT size=', n, ' ok=', merge(1, 0, s == n*(n+1)/2)
 call MPI_Finalize(e)
end
