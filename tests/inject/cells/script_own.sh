#!/bin/sh
# conda's way: the folder of the MPI that it was built with comes first.
# build: $CC -O1 -x c -o $OUT.bin $HERE/hello.inc -x none $MPI; sed "s|@BIN@|$OUT.bin|; s|@DIR@|$DIR|; s|@PREFIX@|$PREFIX|" $SRC > $OUT; chmod +x $OUT
export LD_LIBRARY_PATH="@DIR@${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec @BIN@ "$@"
