#!/bin/sh
# env starts the program, with a variable and without another.
# build: $CC -O1 -x c -o $OUT.bin $HERE/hello.inc -x none $MPI; sed "s|@BIN@|$OUT.bin|; s|@DIR@|$DIR|; s|@PREFIX@|$PREFIX|" $SRC > $OUT; chmod +x $OUT
exec env -u OMP_PLACES OMP_NUM_THREADS=1 @BIN@ "$@"
