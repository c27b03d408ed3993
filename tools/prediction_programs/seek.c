/* A file of each rank: what is read depends on the value of MPI_SEEK_SET. */
#include "common.h"
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words) {
    int value = -1;
    char name[4096];
    MPI_File file;
    MPI_Init(&count, &words);
    snprintf(name, sizeof name, "%s/seek.%d", getenv("PREDICTION_FOLDER"), (int)getpid());
    MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                  MPI_INFO_NULL, &file);
    for (int i = 0; i < 4; i++) MPI_File_write(file, &i, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_seek(file, 4, MPI_SEEK_SET);
    MPI_File_read(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    return finish(value == 1);
}
