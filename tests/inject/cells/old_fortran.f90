! mpif.h: sums in place, a constant of a common block.
! build: $FC -o $OUT $SRC $MPI -Wl,--no-as-needed -L$DIR $$(ls $DIR/libmpifort.so $DIR/libmpichfort.so $DIR/libmpi_mpifh.so 2>/dev/null)
program old
    include "mpif.h"
    integer error, rank, total, ranks
    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    total = 1
    call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
    if (rank == 0) print '("RESULT size=", i0, " ok=", i0)', ranks, merge(1, 0, total == ranks)
    call MPI_Finalize(error)
end program
