#!/usr/bin/python3
# Python opens the MPI with ctypes.
# build: sed "s|@SONAME@|$SONAME|; s|@DIR@|$DIR|" $SRC > $OUT; chmod +x $OUT
# needs: mpich intel
# set: LD_LIBRARY_PATH=$DIR
import ctypes

mpi = ctypes.CDLL("@SONAME@", mode=ctypes.RTLD_GLOBAL)
WORLD = 0x44000000
mpi.MPI_Init(None, None)
size, rank = ctypes.c_int(), ctypes.c_int()
mpi.MPI_Comm_size(WORLD, ctypes.byref(size))
mpi.MPI_Comm_rank(WORLD, ctypes.byref(rank))
if rank.value == 0:
    print(f"RESULT size={size.value} ok=1", flush=True)
mpi.MPI_Finalize()
