/* MPICH of Debian is in the program itself: nothing can be replaced.
   build: case $LIB in /usr/lib/*libmpich*) ;; *) exit 1 ;; esac
   build: $CC -o $OUT $SRC /usr/lib/x86_64-linux-gnu/libmpich.a -lm -lucp -lucs -lfabric
   needs: mpich */
#include "common.h"

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return finish(1);
}
