#!/bin/sh
# LD_LIBRARY_PATH is set again, whatever it was.
# build: $CC -O1 -x c -o $OUT.bin $HERE/hello.inc -x none $MPI; sed "s|@BIN@|$OUT.bin|; s|@DIR@|$DIR|; s|@PREFIX@|$PREFIX|" $SRC > $OUT; chmod +x $OUT
export LD_LIBRARY_PATH=@DIR@
exec @BIN@ "$@"
