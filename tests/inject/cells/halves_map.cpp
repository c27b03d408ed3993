/* Half floats of a vendor in a map of C++ that is filled before main.
   build: $CXX -O2 -o $OUT $SRC $MPI
   needs: mpich intel */
#include "common.h"
#include <map>
#include <string>

static const std::map<std::string, MPI_Datatype> types = {
    {"half", MPIX_C_FLOAT16}, {"float", MPI_FLOAT}, {"bool", MPI_CXX_BOOL}};

int main(int count, char **words) {
    int half = 0, single = 0;
    MPI_Init(&count, &words);
    MPI_Type_size(types.at("half"), &half);
    MPI_Type_size(types.at("float"), &single);
    return finish(half == 2 && single == 4);
}
