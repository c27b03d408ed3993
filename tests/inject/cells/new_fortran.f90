! mpif.h: handler and split type of MPI 4.0, which a Fortran program hands over by their address.
! build: $FC -o $OUT $SRC $MPI -Wl,--no-as-needed -L$DIR $$(ls $DIR/libmpifort.so $DIR/libmpichfort.so $DIR/libmpi_mpifh.so 2>/dev/null)
program new
    include "mpif.h"
    integer error, rank, ranks
    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ABORT, error)
    if (rank == 0) print '("RESULT size=", i0, " ok=", i0)', ranks, merge(1, 0, error == MPI_SUCCESS)
    call MPI_Finalize(error)
end program
