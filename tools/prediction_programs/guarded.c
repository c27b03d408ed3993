/* Sessions of MPI 4, called only where MPI_Get_version says that they are there. */
#include "common.h"

int main(int count, char **words) {
    int version, subversion;
    MPI_Init(&count, &words);
    MPI_Get_version(&version, &subversion);
    if (version >= 4) {
        MPI_Session session;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Session_finalize(&session);
    }
    return finish(1);
}
