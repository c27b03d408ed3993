#!/bin/sh
# The MPI that it was built with is preloaded.
# build: $CC -O1 -x c -o $OUT.bin $HERE/hello.inc -x none $MPI; sed "s|@BIN@|$OUT.bin|; s|@DIR@|$DIR|; s|@PREFIX@|$PREFIX|" $SRC > $OUT; chmod +x $OUT
export LD_PRELOAD="$(ls @DIR@/libmpi.so.* | head -1)"
exec @BIN@ "$@"
