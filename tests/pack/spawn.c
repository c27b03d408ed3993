#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int count, char **words)
{
    MPI_Comm parent, children;
    int rank, size, more = 0, one = 1;
    char library[MPI_MAX_LIBRARY_VERSION_STRING], name[MPI_MAX_PROCESSOR_NAME] = "";
    char places[2][MPI_MAX_PROCESSOR_NAME];
    int length;
    MPI_Init(&count, &words);
    MPI_Comm_get_parent(&parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_library_version(library, &length);
    MPI_Get_processor_name(name, &length);
    library[strcspn(library, "\n,")] = '\0';
    if (parent != MPI_COMM_NULL) {
        MPI_Reduce(&one, NULL, 1, MPI_INT, MPI_SUM, 0, parent);
        MPI_Gather(name, sizeof(name), MPI_CHAR, NULL, 0, MPI_CHAR, 0, parent);
        MPI_Comm_disconnect(&parent);
    } else {
        if (count > 1) {
            MPI_Comm_spawn(words[1], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                           MPI_ERRCODES_IGNORE);
            MPI_Reduce(NULL, &more, 1, MPI_INT, MPI_SUM, rank == 0 ? MPI_ROOT : MPI_PROC_NULL,
                       children);
            MPI_Gather(NULL, 0, MPI_CHAR, places, sizeof(name), MPI_CHAR,
                       rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
            /* Connected, MPI_Finalize of Open MPI 5.0.11 now and then waits for ever. */
            MPI_Comm_disconnect(&children);
            if (rank == 0) printf("spawned on %s and %s\n", places[0], places[1]);
        }
        printf("rank %d of %d on %s, %d spawned, %s\n", rank, size, name, more, library);
    }
    MPI_Finalize();
    return 0;
}
