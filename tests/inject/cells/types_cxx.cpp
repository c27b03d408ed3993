/* Types of C++ and an exception that crosses a callback of MPI's error handler.
   build: $CXX -std=c++17 -O2 -o $OUT $SRC $MPI */
#include "common.h"
#include <complex>
#include <stdexcept>
#include <vector>

int main(int count, char **words) {
    MPI_Init(&count, &words);
    std::vector<std::complex<double>> in(3, {1, 2}), out(3);
    MPI_Allreduce(in.data(), out.data(), 3, MPI_CXX_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    bool caught = false;
    try {
        if (MPI_Send(in.data(), -1, MPI_INT, 0, 0, MPI_COMM_WORLD) != MPI_SUCCESS)
            throw std::runtime_error("no");
    } catch (const std::exception &) {
        caught = true;
    }
    return finish(caught && out[2].imag() == 4);
}
