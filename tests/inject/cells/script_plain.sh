#!/bin/sh
# A wrapper that only starts the program.
# build: $CC -O1 -x c -o $OUT.bin $HERE/hello.inc -x none $MPI; sed "s|@BIN@|$OUT.bin|; s|@DIR@|$DIR|; s|@PREFIX@|$PREFIX|" $SRC > $OUT; chmod +x $OUT
exec @BIN@ "$@"
