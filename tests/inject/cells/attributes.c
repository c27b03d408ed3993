/* Predefined attributes of the world and of a window.
   build: $CC -O1 -o $OUT $SRC $MPI */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int found = 0, *size, *flavor;
    void *value, *base;
    MPI_Win window;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found);
    int good = found && *(int *)value >= 32767;
    MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    MPI_Win_get_attr(window, MPI_WIN_DISP_UNIT, &size, &found);
    good &= found && *size == 8;
    MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, &flavor, &found);
    good &= found && *flavor == MPI_WIN_FLAVOR_ALLOCATE;
    MPI_Win_free(&window);
    return finish(good);
}
