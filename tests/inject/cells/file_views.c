/* A file with a view, written by both ranks, large counts left out.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int rank, got[2] = {0, 0};
    MPI_File file;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_File_open(MPI_COMM_WORLD, "file.bin",
        MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_File_set_view(file, rank * sizeof(int), MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_write_all(file, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_read_at_all(file, 0, got, 2, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    return finish(got[1] == 1);
}
